// setmaxnreg (PTX ISA 9.7.19.5): registers that a warpgroup gives to its block's pool or takes from it. Here they cost
// nothing, but .inc waits until the pool has them, for ever where nobody gives enough.
//
// The pool is the block's registers at its start, by its machine code, or else by ptxas' rule: as many
// registers a thread as .maxnreg allows, or as let .minnctapersm blocks of .maxntid threads onto an SM, but no more
// than the greatest number that a setmaxnreg of the kernel names. Without either ptxas leaves setmaxnreg out (C7508).
#include <algorithm>
#include <vector>

#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/launch.h"

namespace fa::emu {
namespace {

constexpr uint32_t registers_of_quarter = 65536 / 4, max_registers = 256, unit = 8, group_warps = 4;

void change(Warp &warp, const Instruction &instruction, uint32_t);

/// Registers a thread with which a kernel of these limits begins, most of which it names; 0: ptxas cannot know.
uint32_t registers_of(const ptx::EntryLimits &limits, uint32_t most) {
  if (limits.max_registers) return limits.max_registers;
  const uint32_t (&block)[3] = limits.required_threads[0] ? limits.required_threads : limits.max_threads;
  uint32_t threads = block[0] * block[1] * block[2];
  if (threads == 0 || limits.min_ctas == 0) return 0;
  // Each quarter of an SM has its own registers, and every fourth warp.
  uint32_t warps = (threads + lanes - 1) / lanes * limits.min_ctas;
  uint32_t in_quarter = (warps + group_warps - 1) / group_warps;
  return std::min(registers_of_quarter / in_quarter / lanes / unit * unit, most);
}

struct RegisterPool : State {
  struct Share {
    uint32_t registers = 0;  // a thread
    uint32_t changes = 0;    // setmaxnreg executed
    const Instruction *last = nullptr;
  };
  std::vector<Share> shares;  // by warp
  uint32_t whole = 0;         // registers of the block; 0: setmaxnreg does nothing

  void begin(const Cta &cta) {
    if (!shares.empty()) return;
    const Program &program = *cta.launch->program;
    uint32_t most = 0;
    for (const Instruction &instruction : program.code)
      if (instruction.run == change) most = std::max(most, static_cast<uint32_t>(instruction.imm));
    uint32_t each = registers_of(program.module->functions[program.functions[0].function].limits, most);
    if (each != 0 && cta.launch->registers != 0) each = cta.launch->registers;
    each = (each + unit - 1) / unit * unit;
    uint32_t warps = static_cast<uint32_t>(cta.warps.size());
    shares.assign(warps, {each, 0, nullptr});
    whole = (warps + group_warps - 1) / group_warps * group_warps * lanes * each;
  }

  /// Free for the warp: the block's registers less those of the other warps. Nothing says that one that ends gives its
  /// registers back, other than by setmaxnreg.dec.
  uint32_t left_for(const Warp &warp) const {
    uint32_t taken = 0;
    for (const Warp &other : warp.cta->warps)
      if (&other != &warp) taken += shares[other.index].registers * lanes;
    return taken < whole ? whole - taken : 0;
  }

  void at_exit(Cta &cta) override {
    if (!cta.launch->options.check) return;
    for (size_t first = 0; first < shares.size(); first += group_warps)
      for (size_t i = first + 1; i < std::min(first + group_warps, shares.size()); i++) {
        const Share &one = shares[first], &other = shares[i];
        if (one.changes == other.changes && one.registers == other.registers) continue;
        const Share &more = one.changes >= other.changes ? one : other;
        cta.launch->findings.add(Violation::register_pool, cta.warps[&more == &one ? first : i], *more.last, -1,
                                 "setmaxnreg is for all four warps of a warpgroup: warp " + std::to_string(first) +
                                     " has executed " + std::to_string(one.changes) + ", warp " + std::to_string(i) +
                                     " " + std::to_string(other.changes));
        return;
      }
  }
};

/// imm: registers a thread. detail: .inc, else .dec.
void change(Warp &warp, const Instruction &instruction, uint32_t) {
  auto &pool = warp.cta->state<RegisterPool>();
  pool.begin(*warp.cta);
  RegisterPool::Share &mine = pool.shares[warp.index];
  uint32_t registers = static_cast<uint32_t>(instruction.imm);
  bool increase = instruction.detail;
  if (pool.whole == 0) {
    mine.changes++;
    mine.last = &instruction;
    return;
  }
  if (increase ? registers < mine.registers : registers > mine.registers)
    fault(warp, instruction, FaultKind::illegal_instruction, -1,
          std::string(increase ? "setmaxnreg.inc to " : "setmaxnreg.dec to ") + std::to_string(registers) +
              " registers a thread, and the warp has " + std::to_string(mine.registers));
  if (increase && registers * lanes > pool.left_for(warp)) {
    warp.pause = Pause::retry;
    return;
  }
  mine = {registers, mine.changes + 1, &instruction};
  warp.cta->cluster->events++;
}

bool decode(Decoder &d) {
  d.expect_operands(1, 1);
  d.out().imm = d.immediate(0);
  bool fits = d.out().imm >= 24 && d.out().imm <= max_registers && d.out().imm % unit == 0;
  if (!fits) d.fail("setmaxnreg takes 24 to 256 registers in steps of 8");
  if (d.has("inc") == d.has("dec")) d.fail("expected .inc or .dec");
  d.out().detail = d.has("inc");
  d.converge_warp();
  d.pausing();
  return d.run(change);
}

const Registration registration{{"setmaxnreg", decode}};

}  // namespace
}  // namespace fa::emu
