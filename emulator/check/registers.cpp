// Following registers from instruction to instruction.
#include "check/registers.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "exec/warp.h"

namespace fa::emu::check {
namespace {

/// Whether a wgmma in flight uses the register: descriptors and predicates are read when it is issued.
bool keeps(const Program &program, uint32_t pc, const RegisterUse &use) {
  const auto &registers = program.function_at(pc).registers;
  ptx::Type type = registers.size() > use.reg ? registers[use.reg] : ptx::Type::none;
  return use.write || (type != ptx::Type::pred && ptx::bytes_of(type) != 8);
}

}  // namespace

void Registers::begin() {
  FrameRegisters kept = std::move(kept_);
  for (auto &[frame, registers] : frames_)
    if (registers.written.size() >= kept.written.size()) kept = std::move(registers);
  kept.written.clear();
  kept.settled.clear();
  kept.origins.clear();
  kept.parts.clear();
  std::vector<Pending> pending = std::move(pending_);
  if (pending_count_ > 0) std::fill(pending.begin(), pending.end(), Pending{});
  const uint32_t block = block_ + 1;
  *this = {};
  kept_ = std::move(kept);
  pending_ = std::move(pending);
  block_ = block;
}

Registers::FrameRegisters &Registers::registers_of(const Warp &warp, uint32_t pc) {
  const Program &program = *warp.cta->launch->program;
  const ProgramFunction &share = program.functions[warp.frame->function];
  // Frames of calls are used again: a call begins at the function's first instruction.
  bool entered = warp.frame->caller != nullptr && pc == share.first;
  if (warp.frame == last_frame_ && !entered) return *last_;
  auto [at, is_new] = frames_.try_emplace(warp.frame);
  FrameRegisters &frame = at->second;
  if (entered) frame = {};
  if (is_new && !warp.frame->caller) frame = std::move(kept_);
  if (frame.written.empty()) frame.written.resize(program.function_at(pc).registers.size());
  last_frame_ = warp.frame;
  last_ = &frame;
  return frame;
}

void Registers::instruction(Reporter &reporter, const Warp &warp, uint32_t pc, const InstructionProperties &properties,
                            uint32_t mask) {
  const Program &program = *warp.cta->launch->program;
  FrameRegisters &frame = registers_of(warp, pc);
  missing_.clear();
  early_loads_.clear();
  const uint32_t index = pc - program.functions[warp.frame->function].first;
  const bool nothing_in_flight = pending_count_ == 0 && fences_ == 0;
  if (nothing_in_flight && index < frame.settled.size() && (mask & ~frame.settled[index]) == 0) return;
  std::vector<uint32_t> &written = frame.written;
  std::span<const RegisterUse> uses = uses_of(program, pc);
  uint32_t missing = 0;
  for (const RegisterUse &use : uses) {
    if (use.reg >= written.size()) written.resize(use.reg + 1);
    // Whether accumulators are read depends on scale-d.
    if (!use.write && !use.conditional) missing |= mask & ~written[use.reg];
  }
  const bool partial_exchange = properties.propagation == Propagation::exchange && mask != all_lanes;
  const bool complete = missing == 0 && !partial_exchange && (frame.parts.empty() || !has_parts(uses));
  if (!complete)
    follow(reporter, warp, pc, properties, mask);
  else
    for (const RegisterUse &use : uses)
      if (use.write) written[use.reg] |= mask;
  if (pending_count_ > 0) check_pending(reporter, warp, pc, properties);
  switch (properties.kind) {
    case InstructionKind::wgmma:
      check_fence(reporter, warp, pc);
      return issue(program, pc);
    case InstructionKind::wgmma_fence:
      fences_++;
      return;
    case InstructionKind::wgmma_commit:
      groups_.push_back(std::move(open_));
      open_.clear();
      return;
    case InstructionKind::wgmma_wait:
      return wait(static_cast<size_t>(properties.groups));
    case InstructionKind::tensor_load:
      return load(program, pc);
    case InstructionKind::tensor_wait_load:
      return loaded();
    default:
      if (fences_ > 0) touch(program, pc, properties);
      if (complete) settle(index, mask);
  }
}

void Registers::settle(uint32_t index, uint32_t mask) {
  std::vector<uint32_t> &settled = last_->settled;
  if (index >= settled.size()) settled.resize(index + 1);
  settled[index] |= mask;
}

Registers::Pending &Registers::pending(uint32_t reg) {
  if (reg >= pending_.size()) pending_.resize(std::max<size_t>(reg + 1, last_->written.size()));
  Pending &one = pending_[reg];
  if (one.users == 0) one = {}, pending_count_++;
  return one;
}

/// Lanes that hold a value for one element at least of the vector that the instruction stores.
uint32_t Registers::lanes_with_some(const Program &program, uint32_t pc, const std::vector<uint32_t> &written) const {
  uint32_t result = 0;
  for (const ptx::Operand &element : vector_of(program, pc)) {
    if (element.kind != ptx::OperandKind::reg)
      result = ~0u;
    else if (element.index < written.size())
      result |= written[element.index];
  }
  return result;
}

Registers::Touch &Registers::touch_of(uint32_t reg) {
  std::vector<Touch> &touched = last_->touched;
  if (reg >= touched.size()) touched.resize(std::max<size_t>(reg + 1, last_->written.size()));
  Touch &one = touched[reg];
  if (one.block != block_) one = {block_};
  return one;
}

/// Copies are transparent: nvcc writes them between the fence and the wgmma, and ptxas does away with them.
void Registers::touch(const Program &program, uint32_t pc, const InstructionProperties &properties) {
  std::span<const RegisterUse> uses = uses_of(program, pc);
  if (properties.kind == InstructionKind::move) {
    Touch source;
    for (const RegisterUse &use : uses)
      if (!use.write && touch_of(use.reg).written > source.written) source = touch_of(use.reg);
    for (const RegisterUse &use : uses)
      if (use.write) touch_of(use.reg) = {block_, source.written, 0, source.pc, touch_of(use.reg).multiplied, pc};
    return;
  }
  for (const RegisterUse &use : uses) {
    Touch &one = touch_of(use.reg);
    (use.write ? one.written : one.read) = fences_ + 1;
    one.pc = pc;
  }
}

void Registers::check_fence(Reporter &reporter, const Warp &warp, uint32_t pc) {
  if (fences_ == 0) {
    reporter.report(Violation::missing_wgmma_fence, warp, pc, no_pc, -1,
                    [] { return "the kernel's first wgmma, without a wgmma.fence before it"; });
    return;
  }
  const Program &program = *warp.cta->launch->program;
  std::span<const RegisterUse> uses = uses_of(program, pc);
  auto is_accumulator = [&](uint32_t reg) {
    for (const RegisterUse &use : uses)
      if (use.reg == reg && use.write) return true;
    return false;
  };
  for (const RegisterUse &use : uses) {
    if (!keeps(program, pc, use)) continue;
    const Touch &one = touch_of(use.reg);
    // A copy may come behind the fence, but not without one since the last wgmma of its register.
    bool copied = one.copied_pc != no_pc && one.multiplied > fences_;
    bool written = one.written > fences_, read = one.read > fences_;
    if (!written && !copied && !(read && is_accumulator(use.reg))) continue;
    const uint32_t other = copied && !written ? one.copied_pc : one.pc;
    reporter.report(Violation::missing_wgmma_fence, warp, pc, other, -1, [&] {
      return "uses register " + program.function_at(pc).register_name(use.reg) + ", which " + reporter.line(other) +
             (written || copied ? " writes" : " reads") + ", without a wgmma.fence between";
    });
  }
}

void Registers::load(const Program &program, uint32_t pc) {
  for (const RegisterUse &use : uses_of(program, pc)) {
    if (!use.write) continue;
    pending(use.reg) = {pc, true, true, 1};
    loads_.push_back(use.reg);
  }
}

void Registers::loaded() {
  for (uint32_t reg : loads_)
    if (std::exchange(pending_[reg].users, 0) > 0) pending_count_--;
  loads_.clear();
}

void Registers::issue(const Program &program, uint32_t pc) {
  for (const RegisterUse &use : uses_of(program, pc)) {
    if (!keeps(program, pc, use)) continue;
    Touch &one = touch_of(use.reg);
    one.multiplied = fences_ + 1;
    one.copied_pc = no_pc;
    Pending &operand = pending(use.reg);
    operand.pc = pc;
    operand.result |= use.write;
    operand.copy = false;
    operand.users++;
    open_.push_back(use.reg);
  }
}

void Registers::wait(size_t groups) {
  while (groups_.size() > groups) {
    for (uint32_t reg : groups_.front()) {
      Pending &operand = pending_[reg];
      if (operand.users > 0 && --operand.users == 0) pending_count_--;
    }
    groups_.pop_front();
  }
}

void Registers::check_pending(Reporter &reporter, const Warp &warp, uint32_t pc,
                              const InstructionProperties &properties) {
  if (properties.kind == InstructionKind::wgmma) return;  // accumulators may be shared by wgmma in a row
  const Program &program = *warp.cta->launch->program;
  if (properties.kind == InstructionKind::move) return copy_pending(reporter, warp, pc);
  for (const RegisterUse &use : uses_of(program, pc)) {
    if (use.reg >= pending_.size() || pending_[use.reg].users == 0) continue;
    const Pending &operand = pending_[use.reg];
    if (!use.write && !operand.result) continue;
    if (use.write && operand.copy) {
      overwrite_copy(use.reg);
      continue;
    }
    if (operand.loaded) {
      use_early(reporter, warp, pc, use.reg);
      continue;
    }
    reporter.report(Violation::pending_accumulator, warp, pc, operand.pc, -1, [&] {
      return "register " + program.function_at(pc).register_name(use.reg) + " is in use by the wgmma of " +
             reporter.line(operand.pc) + ", which no wgmma.wait_group has waited for";
    });
  }
}

/// A copy of the result of a load or a wgmma is in flight as long as the result is.
void Registers::copy_pending(Reporter &reporter, const Warp &warp, uint32_t pc) {
  const Program &program = *warp.cta->launch->program;
  std::span<const RegisterUse> uses = uses_of(program, pc);
  for (const RegisterUse &to : uses)
    if (to.write && to.reg < pending_.size() && pending_[to.reg].copy) overwrite_copy(to.reg);
  for (const RegisterUse &from : uses) {
    if (from.write || from.reg >= pending_.size() || pending_[from.reg].users == 0) continue;
    const Pending source = pending_[from.reg];
    if (!source.result) continue;
    if (!source.loaded && !source.copy)
      reporter.report(Violation::serialised, warp, pc, source.pc, -1, [&] {
        return "copies register " + program.function_at(pc).register_name(from.reg) + ", a result of the wgmma of " +
               reporter.line(source.pc) +
               ", which no wgmma.wait_group has waited for: ptxas makes the copy wait for the product, so that "
               "products are serialised; the PTX ISA leaves it undefined";
      });
    for (const RegisterUse &to : uses) {
      if (!to.write) continue;
      Pending &copy = pending(to.reg);
      if (source.loaded) {
        copy = source;
        loads_.push_back(to.reg);
      } else if (copy.users == 0) {
        copy = {source.pc, true, false, 1, true};
        group_of(from.reg).push_back(to.reg);
      }
    }
  }
}

void Registers::overwrite_copy(uint32_t reg) {
  if (pending_[reg].users > 0) pending_count_--;
  pending_[reg] = {};
  std::erase(open_, reg);
  for (auto &group : groups_) std::erase(group, reg);
}

/// The registers that are in flight as long as this one.
std::vector<uint32_t> &Registers::group_of(uint32_t reg) {
  const auto has = [&](const std::vector<uint32_t> &list) {
    return std::find(list.begin(), list.end(), reg) != list.end();
  };
  if (has(open_)) return open_;
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group)
    if (has(*group)) return *group;
  return open_;
}

/// The load is over where the first of its results is used: one report, and no others.
void Registers::use_early(Reporter &reporter, const Warp &warp, uint32_t pc, uint32_t reg) {
  uint32_t load = pending_[reg].pc;
  reporter.report(Violation::unwaited_load, warp, load, load, -1, [&] {
    return reporter.line(pc) + " uses register " + warp.cta->launch->program->function_at(pc).register_name(reg) +
           " of this load, which no tcgen05.wait::ld has waited for: ptxas makes it wait, the PTX ISA does not";
  });
  early_loads_.push_back(load);
  std::erase_if(loads_, [&](uint32_t loaded) {
    if (pending_[loaded].pc != load) return false;
    if (std::exchange(pending_[loaded].users, 0) > 0) pending_count_--;
    return true;
  });
}

}  // namespace fa::emu::check
