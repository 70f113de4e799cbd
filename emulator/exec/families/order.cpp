// Memory order and time: membar, fence (PTX ISA 9.7.13.4), nanosleep, pmevent, brkpt. The host's own fence orders
// accesses of blocks on different host threads.
#include <atomic>

#include "exec/cta.h"
#include "exec/dispatch.h"
#include "exec/fault.h"

namespace fa::emu {
namespace {

void full_fence(Warp &, const Instruction &, uint32_t) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool decode_membar(Decoder &d) {
  d.expect_operands(0, 0);
  return !d.has("proxy") && d.run(full_fence);
}

bool decode_fence(Decoder &d) {
  bool memory = d.has("sc") || d.has("acq_rel") || d.has("acquire") || d.has("release");
  return memory && !d.has("proxy") && !d.has("mbarrier_init") && decode_membar(d);
}

/// Whoever sleeps lets the others run. Time does not pass faster for it.
void sleep(Warp &warp, const Instruction &, uint32_t) {
  warp.pause = Pause::yield;
}

bool decode_nanosleep(Decoder &d) {
  d.expect_operands(1, 1);
  d.out().a = d.source(0, ptx::Type::u32);
  d.pausing();
  return d.run(sleep);
}

bool decode_pmevent(Decoder &d) {
  d.expect_operands(1, 1);
  return d.run([](Warp &, const Instruction &, uint32_t) {});
}

/// No debugger is there to catch it.
void breakpoint(Warp &warp, const Instruction &instruction, uint32_t mask) {
  fault(warp, instruction, FaultKind::trap, __builtin_ctz(mask), "the kernel executed brkpt");
}

bool decode_brkpt(Decoder &d) {
  d.expect_operands(0, 0);
  return d.run(breakpoint);
}

const Registration registration{{"membar", decode_membar},
                                {"fence", decode_fence},
                                {"nanosleep", decode_nanosleep},
                                {"pmevent", decode_pmevent},
                                {"brkpt", decode_brkpt}};

}  // namespace
}  // namespace fa::emu
