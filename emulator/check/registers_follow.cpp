// Uninitialised registers, followed from instruction to instruction until a value derived from them is used.
#include <algorithm>
#include <bit>

#include "check/registers.h"
#include "check/shared_memory.h"
#include "exec/warp.h"

namespace fa::emu::check {
namespace {

bool is_element(const Program &program, uint32_t pc, uint32_t reg) {
  auto vector = vector_of(program, pc);
  return std::any_of(vector.begin(), vector.end(), [&](const ptx::Operand &element) {
    return element.kind == ptx::OperandKind::reg && element.index == reg;
  });
}

/// mov of one register into another.
bool is_copy(const PropagationStep &step) {
  const Program &program = *step.warp.cta->launch->program;
  return program.module->opcodes[program.source(step.pc).opcode].name == "mov";
}

}  // namespace

/// An instruction some of whose sources are uninitialised in some lanes.
void Registers::follow(Reporter &reporter, const Warp &warp, uint32_t pc, const InstructionProperties &properties,
                       uint32_t mask) {
  const Program &program = *warp.cta->launch->program;
  std::vector<uint32_t> &written = last_->written;
  std::span<const RegisterUse> uses = uses_of(program, pc);
  std::vector<uint32_t> sources;  // that nobody has written
  for (const RegisterUse &use : uses) {
    uint32_t missing = use.write || use.conditional ? 0 : mask & ~written[use.reg];
    if (missing && properties.vector && is_element(program, pc, use.reg)) {
      const uint32_t some = missing & lanes_with_some(program, pc, written);
      if (some) missing_.push_back({use.reg, some});
      missing &= ~some;
    }
    if (missing == 0) continue;
    if (properties.propagation == Propagation::use)
      count(reporter, warp, pc, use.reg, missing);
    else
      sources.push_back(use.reg);
  }
  PropagationStep step{warp, pc, properties.propagation, mask, written};
  std::vector<Result> results;
  for (const RegisterUse &use : uses) {
    if (!use.write) continue;
    step.only = ptx::none;
    Result &result = results.emplace_back(Result{use.reg, step.into(use.reg), {}});
    if (result.uninitialised == 0) continue;
    if (sources.empty()) {
      if (properties.propagation == Propagation::exchange)
        result.origin = {pc, step.operands()[1].index, no_pc, 0, true};
      continue;
    }
    result.origin = origin_of(sources.front(), pc);
    for (uint32_t source : sources) {
      step.only = source;
      if (step.into(use.reg) == 0) continue;
      result.origin = origin_of(source, pc);
      break;
    }
  }
  step.only = ptx::none;
  follow_parts(step, results);
  for (const Result &result : results) {
    written[result.reg] |= mask & ~result.uninitialised;
    if (result.uninitialised == 0) continue;
    lose(result.reg, result.uninitialised);
    last_->origins[result.reg] = result.origin;
  }
}

/// A lost value is no longer settled.
void Registers::lose(uint32_t reg, uint32_t lanes_of_it) {
  uint32_t &written = last_->written[reg];
  if ((written & lanes_of_it) == 0) return;
  written &= ~lanes_of_it;
  last_->settled.clear();
}

bool Registers::has_parts(std::span<const RegisterUse> uses) const {
  return std::any_of(uses.begin(), uses.end(), [&](const RegisterUse &use) { return last_->parts.contains(use.reg); });
}

/// Halves are packed with halves that nobody has written, and unpacked again. Operations on the pair in between count
/// as operations on the written half.
void Registers::follow_parts(const PropagationStep &step, std::vector<Result> &results) {
  auto &all = last_->parts;
  const auto operands = step.operands();
  if (step.rule == Propagation::unpack && operands[1].kind == ptx::OperandKind::reg) {
    const auto found = all.find(operands[1].index);
    const auto elements = step.elements(0);
    for (Result &result : results)
      for (size_t i = 0; found != all.end() && i < std::min(elements.size(), found->second.size()); i++) {
        const Part &part = found->second[i];
        if (elements[i].kind != ptx::OperandKind::reg || elements[i].index != result.reg) continue;
        if ((part.lanes & step.mask & ~result.uninitialised) != 0) result.origin = part.origin;
        result.uninitialised |= part.lanes & step.mask;
      }
  }
  std::vector<Part> parts;
  if (step.rule == Propagation::pack && results.size() == 1)
    for (const ptx::Operand &element : step.elements(1)) {
      const uint32_t missing = step.missing(element) & ~results[0].uninitialised;
      parts.push_back({missing, missing ? origin_of(element.index, step.pc) : Origin{}});
    }
  if (step.rule == Propagation::lane && operands.size() == 2 && operands[1].kind == ptx::OperandKind::reg)
    if (const auto found = all.find(operands[1].index); found != all.end() && is_copy(step)) parts = found->second;
  const bool any = std::any_of(parts.begin(), parts.end(), [](const Part &part) { return part.lanes != 0; });
  for (const Result &result : results) all.erase(result.reg);
  if (!any) return;
  all[results[0].reg] = std::move(parts);
  last_->settled.clear();
}

Registers::Origin Registers::origin_of(uint32_t reg, uint32_t pc) const {
  auto found = last_->origins.find(reg);
  if (found == last_->origins.end()) return {pc, reg, no_pc, 0};
  Origin origin = found->second;
  if (origin.pc == no_pc) origin.pc = pc;
  return origin;
}

/// An uninitialised value is used: reported once a register.
void Registers::count(Reporter &reporter, const Warp &warp, uint32_t pc, uint32_t reg, uint32_t lanes_of_it) {
  const Program &program = *warp.cta->launch->program;
  const Origin origin = origin_of(reg, pc);
  last_->written[reg] |= lanes_of_it;
  bool loaded = origin.reg == ptx::none;
  if (loaded) unused_.erase(origin.pc), used_.insert(origin.pc);
  reporter.report(loaded ? Violation::uninitialised_memory : Violation::uninitialised_register, warp, origin.pc,
                  origin.pc == pc ? no_pc : pc, std::countr_zero(lanes_of_it), [&] {
                    std::string text = loaded ? "reads " + shared_place(origin.address) + ", which was never written"
                                              : "register " + program.function_at(origin.pc).register_name(origin.reg) +
                                                    " is read and was never written";
                    if (origin.absent)
                      text = "shfl takes register " + program.function_at(origin.pc).register_name(origin.reg) +
                             " from a lane that does not take part";
                    if (origin.load_pc != no_pc)
                      text +=
                          ": " + reporter.line(origin.load_pc) + " loads it from shared memory that nobody has written";
                    if (origin.pc != pc) text += "; " + reporter.line(pc) + " uses its result";
                    return text;
                  });
}

void Registers::skip(Reporter &reporter, const Warp &warp, uint32_t pc, const InstructionProperties &properties,
                     uint32_t mask) {
  const Program &program = *warp.cta->launch->program;
  const uint32_t guard = program.source(pc).guard;
  FrameRegisters &frame = registers_of(warp, pc);
  if (guard >= frame.written.size()) frame.written.resize(guard + 1);
  const uint32_t missing = mask & ~frame.written[guard];
  if (missing == 0) return;
  if (properties.propagation == Propagation::use) return count(reporter, warp, pc, guard, missing);
  // Whether the result is the old or the new value, nobody has said.
  const Origin origin = origin_of(guard, pc);
  for (const RegisterUse &use : uses_of(program, pc)) {
    if (!use.write) continue;
    if (use.reg >= frame.written.size()) frame.written.resize(use.reg + 1);
    lose(use.reg, missing);
    frame.origins[use.reg] = origin;
  }
}

void Registers::forget(uint32_t reg, uint32_t mask, uint32_t pc) {
  lose(reg, mask);
  last_->origins[reg] = {no_pc, reg, pc, 0};
}

void Registers::forget_all(uint32_t reg, uint32_t mask, uint32_t pc, uint32_t address) {
  lose(reg, mask);
  Origin &origin = last_->origins[reg];
  if (origin.pc != pc || origin.reg != ptx::none) origin = {pc, ptx::none, no_pc, address};
  if (!used_.contains(pc)) unused_.try_emplace(pc, origin);
}

void Registers::end(Reporter &reporter, const Warp &warp) {
  for (const auto &[pc, origin] : unused_)
    reporter.report(Violation::unused_memory, warp, pc, no_pc, -1, [&] {
      return "reads " + shared_place(origin.address) + ", which was never written; nothing uses the value";
    });
}

}  // namespace fa::emu::check
