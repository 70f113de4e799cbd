// Splitting and merging groups, and the frames of calls.
#include "exec/groups.h"

#include <bit>
#include <cstring>

#include "exec/cta.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "memory/windows.h"

namespace fa::emu {
namespace {

const Program &program_of(const Warp &warp) {
  return *warp.cta->launch->program;
}

void release(Warp &warp, Frame *frame) {
  while (frame && --frame->holders == 0) frame = frame->caller;
  warp.frame = nullptr;
}

bool may_merge(const Group &group) {
  return group.state != GroupState::blocked;
}

void merge(Warp &warp) {
  for (uint32_t i = 0; i < warp.group_count; i++) {
    Group &into = warp.groups[i];
    if (!may_merge(into)) continue;
    for (uint32_t j = i + 1; j < warp.group_count;) {
      Group &from = warp.groups[j];
      if (from.pc != into.pc || from.frame != into.frame || !may_merge(from)) {
        j++;
        continue;
      }
      into.mask |= from.mask;
      into.needed |= from.needed;
      if (from.state != into.state) into.state = GroupState::ready;
      release(warp, from.frame);
      warp.groups[j] = warp.groups[--warp.group_count];
    }
  }
}

/// A frame that nothing holds, or a new one. Zeroed: a program that reads a register before it writes it gets the same
/// value in every run.
Frame *new_frame(Warp &warp, uint32_t function) {
  Frame *frame = nullptr;
  for (auto &spare : warp.frames)
    if (spare->holders == 0) frame = spare.get();
  if (!frame) frame = warp.frames.emplace_back(std::make_unique<Frame>()).get();
  const ProgramFunction &callee = program_of(warp).functions[function];
  frame->storage.assign(callee.frame_bytes / sizeof(RowBlock) + 1, RowBlock{});
  frame->registers = frame->storage.front().bytes;
  frame->function = function;
  return frame;
}

void copy_parameters(Warp &warp, uint32_t mask, const std::vector<ParameterCopy> &copies, uint32_t caller_base,
                     uint32_t callee_base, bool back) {
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint8_t *local = warp.local + size_t{warp.local_stride} * static_cast<uint32_t>(std::countr_zero(rest));
    for (const ParameterCopy &copy : copies) {
      uint8_t *caller = local + caller_base + copy.caller, *callee = local + callee_base + copy.callee;
      std::memcpy(back ? caller : callee, back ? callee : caller, copy.bytes);
    }
  }
}

uint32_t called_function(Warp &warp, const Instruction &instruction, const CallSite &site, uint32_t &mask) {
  if (site.function != UINT32_MAX) return site.function;
  const uint64_t *pointers = warp.row<uint64_t>(site.pointer);
  int first = std::countr_zero(mask);
  uint64_t pointer = pointers[first];
  uint32_t same = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) same |= uint32_t{pointers[lane] == pointer} << lane;
  mask &= same;
  const Program &program = program_of(warp);
  for (uint32_t f = 1; f < program.functions.size(); f++) {
    const ProgramFunction &callee = program.functions[f];
    if (pointer != (memory::function_window | callee.function)) continue;
    if (callee.parameter_bytes == site.parameter_bytes) return f;
    fault(warp, instruction, FaultKind::illegal_instruction, first,
          "call through a pointer: " + std::string(program.module->functions[callee.function].name) + " has " +
              std::to_string(callee.parameter_bytes) + " bytes of parameters and results, the call " +
              std::to_string(site.parameter_bytes));
  }
  fault(warp, instruction, FaultKind::illegal_address, first, "call through a pointer to no function");
}

}  // namespace

void Warp::wake(uint32_t mask) {
  for (uint32_t g = 0; g < group_count; g++)
    if (groups[g].state == GroupState::blocked && (groups[g].mask & mask)) groups[g].state = GroupState::ready;
  blocked = false;
  cta->cluster->events++;
}

uint32_t select_group(Warp &warp) {
  if (warp.group_count > 1) merge(warp);
  uint32_t best = no_group;
  for (uint32_t g = 0; g < warp.group_count; g++) {
    Group &group = warp.groups[g];
    if (group.state == GroupState::parked && (group.needed & warp.live & ~group.mask) == 0)
      group.state = GroupState::ready;
    if (group.state != GroupState::ready) continue;
    if (best == no_group) {
      best = g;
      continue;
    }
    const Group &other = warp.groups[best];
    bool deeper = group.frame->depth > other.frame->depth;
    if (deeper || (group.frame->depth == other.frame->depth && group.pc < other.pc)) best = g;
  }
  return best;
}

uint32_t meeting_point(const Warp &warp, const Group &group) {
  uint32_t nearest = UINT32_MAX;
  for (uint32_t g = 0; g < warp.group_count; g++) {
    const Group &other = warp.groups[g];
    if (other.frame == group.frame && other.pc > group.pc && other.pc < nearest && may_merge(other)) nearest = other.pc;
  }
  return nearest;
}

void add_group(Warp &warp, uint32_t pc, uint32_t mask, Frame *frame) {
  frame->holders++;
  warp.groups[warp.group_count++] = {pc, mask, frame, GroupState::ready, 0};
}

void remove_group(Warp &warp, uint32_t number) {
  release(warp, warp.groups[number].frame);
  warp.groups[number] = warp.groups[--warp.group_count];
}

void enter_call(Warp &warp, uint32_t number, const Instruction &instruction, uint32_t mask) {
  const Program &program = program_of(warp);
  const CallSite &site = program.calls[instruction.target];
  Group &group = warp.groups[number];
  if (site.builtin) {
    site.builtin(warp, instruction, site, mask);
    group.pc++;
    return;
  }
  uint32_t function = called_function(warp, instruction, site, mask);
  const ProgramFunction &callee = program.functions[function];
  Frame *caller = group.frame;
  Frame *frame = new_frame(warp, function);
  frame->caller = caller;
  frame->site = &site;
  frame->return_pc = group.pc + 1;
  frame->depth = caller->depth + 1;
  frame->local_base = caller->local_base + (program.functions[caller->function].local_bytes + 15) / 16 * 16;
  if (frame->local_base + callee.local_bytes > warp.local_stride)
    fault(warp, instruction, FaultKind::stack_overflow, std::countr_zero(mask),
          "the stack of " + std::to_string(warp.local_stride) + " bytes a thread is too small for this call");
  copy_parameters(warp, mask, site.arguments, caller->local_base, frame->local_base, false);
  caller->holders++;  // the new frame
  // Lanes that skip the call, or call another function through a pointer.
  uint32_t rest = group.mask & ~mask;
  bool again = site.function == UINT32_MAX;
  if (rest) add_group(warp, again ? group.pc : group.pc + 1, rest, caller);
  warp.groups[number] = {callee.first, mask, frame, GroupState::ready, 0};
  frame->holders = 1;
  caller->holders--;  // the group
}

void return_from_call(Warp &warp, uint32_t number, uint32_t mask) {
  Group &group = warp.groups[number];
  Frame *frame = group.frame, *caller = frame->caller;
  copy_parameters(warp, mask, frame->site->results, caller->local_base, frame->local_base, true);
  uint32_t return_pc = frame->return_pc;
  caller->holders++;
  uint32_t rest = group.mask & ~mask;
  if (rest) {
    warp.groups[warp.group_count++] = {group.pc + 1, rest, frame, GroupState::ready, 0};
  } else {
    release(warp, frame);
  }
  warp.groups[number] = {return_pc, mask, caller, GroupState::ready, 0};
}

bool join_anywhere(Warp &warp) {
  const Program &program = program_of(warp);
  for (uint32_t g = 0; g < warp.group_count; g++) {
    uint32_t needed = warp.groups[g].needed & warp.live, there = 0;
    if (!program.code[warp.groups[g].pc].joins_anywhere) continue;
    auto joins = [&](const Group &group) {
      return program.code[group.pc].joins_anywhere && (group.needed & warp.live) == needed;
    };
    for (uint32_t j = 0; j < warp.group_count; j++)
      if (joins(warp.groups[j])) there |= warp.groups[j].mask;
    if (needed & ~there) continue;
    uint32_t count = warp.group_count;
    for (uint32_t j = 0; j < count; j++) {
      if (!joins(warp.groups[j])) continue;
      warp.groups[j].needed = 0;  // before pc moves: it decides whether the next one joins
      warp.groups[j].pc++;
      warp.groups[j].state = GroupState::ready;
    }
    return true;
  }
  return false;
}

}  // namespace fa::emu
