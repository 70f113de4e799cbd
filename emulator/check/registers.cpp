// Following registers from instruction to instruction.
#include "check/registers.h"

#include <bit>

#include "exec/warp.h"

namespace fa::emu::check {
namespace {

std::span<const RegisterUse> uses_of(const Program &program, uint32_t pc) {
  uint32_t first = program.first_use[pc];
  return {program.uses.data() + first, program.first_use[pc + 1] - first};
}

}  // namespace

std::vector<uint32_t> &Registers::written_of(const Warp &warp, uint32_t pc) {
  const Program &program = *warp.cta->launch->program;
  const ProgramFunction &share = program.functions[warp.frame->function];
  // Frames of calls are used again: a call begins at the function's first instruction.
  bool entered = warp.frame->caller != nullptr && pc == share.first;
  if (warp.frame == last_frame_ && !entered) return *last_written_;
  FrameRegisters &frame = frames_[warp.frame];
  if (entered) frame.written.clear();
  last_frame_ = warp.frame;
  last_written_ = &frame.written;
  return frame.written;
}

void Registers::instruction(Reporter &reporter, const Warp &warp, uint32_t pc, const Classified &what, uint32_t mask) {
  const Program &program = *warp.cta->launch->program;
  std::vector<uint32_t> &written = written_of(warp, pc);
  for (const RegisterUse &use : uses_of(program, pc)) {
    if (use.reg >= written.size()) written.resize(use.reg + 1);
    if (use.write) {
      written[use.reg] |= mask;
      continue;
    }
    uint32_t missing = mask & ~written[use.reg];
    // Whether accumulators are read depends on scale-d.
    if (missing == 0 || use.conditional) continue;
    written[use.reg] |= missing;
    reporter.report(Violation::uninitialised_register, warp, pc, use.reg, std::countr_zero(missing), [&] {
      return "register " + program.function_at(pc).register_name(use.reg) + " is read and was never written";
    });
  }
  if (!pending_.empty()) check_pending(reporter, warp, pc, what);
  if (what.what == Class::wgmma) issue(program, pc);
  if (what.what == Class::wgmma_commit) groups_.push_back(std::move(open_)), open_.clear();
  if (what.what == Class::wgmma_wait) wait(static_cast<size_t>(what.groups));
}

void Registers::issue(const Program &program, uint32_t pc) {
  for (const RegisterUse &use : uses_of(program, pc)) {
    ptx::Type type = program.function_at(pc).registers.size() > use.reg ? program.function_at(pc).registers[use.reg]
                                                                        : ptx::Type::none;
    // Descriptors and predicates are read when the instruction is issued.
    if (!use.write && (type == ptx::Type::pred || ptx::bytes_of(type) == 8)) continue;
    Pending &pending = pending_[use.reg];
    pending.pc = pc;
    pending.result |= use.write;
    pending.users++;
    open_.push_back(use.reg);
  }
}

void Registers::wait(size_t groups) {
  while (groups_.size() > groups) {
    for (uint32_t reg : groups_.front()) {
      auto found = pending_.find(reg);
      if (found != pending_.end() && --found->second.users == 0) pending_.erase(found);
    }
    groups_.pop_front();
  }
}

void Registers::check_pending(Reporter &reporter, const Warp &warp, uint32_t pc, const Classified &what) {
  if (what.what == Class::wgmma) return;  // accumulators may be shared by wgmma in a row
  const Program &program = *warp.cta->launch->program;
  for (const RegisterUse &use : uses_of(program, pc)) {
    auto found = pending_.find(use.reg);
    if (found == pending_.end() || (!use.write && !found->second.result)) continue;
    if (what.what == Class::move) continue;
    reporter.report(Violation::pending_accumulator, warp, pc, found->second.pc, -1, [&] {
      return "register " + program.function_at(pc).register_name(use.reg) + " is in use by the wgmma of " +
             reporter.line(found->second.pc) + ", which no wgmma.wait_group has waited for";
    });
  }
}

}  // namespace fa::emu::check
