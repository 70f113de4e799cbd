// mbarrier objects (PTX ISA 9.7.13.15): all state is in their 8 bytes of shared memory, in a layout of our own.
// Asynchronous completions (TMA, tcgen05.commit) use this; the instructions are in families/mbarrier.cpp.
#pragma once

#include <cstdint>

#include "exec/warp.h"

namespace fa::emu {

constexpr uint32_t max_mbarrier_arrivals = (1u << 20) - 1;  // also the largest transaction count

struct Mbarrier {
  uint32_t expected = 0;  // arrivals of a phase
  uint32_t pending = 0;   // of this one that are still missing
  int32_t transactions = 0;
  bool phase = false;  // parity: how many phases are complete, modulo 2

  uint64_t bits() const;
  /// False where the bits are no mbarrier (not initialised, invalidated, overwritten).
  static bool read(uint64_t bits, Mbarrier &out);
};

// By shared address (with the rank of the CTA that has it). warp, instruction and lane say who does it, for faults;
// the warp may have ended meanwhile.

/// count arrivals; drop: and as many fewer in the next phases. Returns the bits before.
uint64_t mbarrier_arrive(Warp &warp, const Instruction &instruction, int lane, uint32_t address, uint32_t count,
                         bool drop = false);
/// This many bytes more are awaited in this phase.
void mbarrier_expect(Warp &warp, const Instruction &instruction, int lane, uint32_t address, uint32_t bytes);
/// This many bytes have come.
void mbarrier_complete(Warp &warp, const Instruction &instruction, int lane, uint32_t address, uint32_t bytes);
/// One more arrival is pending in this phase (cp.async.mbarrier.arrive without .noinc).
void mbarrier_add_pending(Warp &warp, const Instruction &instruction, int lane, uint32_t address);
Mbarrier mbarrier_at(Warp &warp, const Instruction &instruction, int lane, uint32_t address);

}  // namespace fa::emu
