// Loops that only wait for memory to change. A warp whose registers and program counters return to earlier values,
// with nothing written meanwhile, goes on like that until another one writes: it waits, as much as at a barrier.
#pragma once

#include <cstdint>

#include "exec/warp.h"

namespace fa::emu {

/// How long a warp has run, how often it has jumped back in loops that may wait and has waited in vain since somebody
/// looked, and whether it was last seen spinning.
struct SpinWatch : State {
  static constexpr uint64_t first_look = 1 << 16;  // instructions; then twice as many each time
  static constexpr uint32_t turns_until_look = 128;
  uint64_t ran = 0, next_look = first_look;
  uint32_t turns = 0, waits = 0;
  bool spinning = false;

  /// It is time to, without waiting for next_look.
  void look() { next_look = turns = waits = 0; }
};

/// Whether others may see that such an instruction was executed. An atom is not among them: where memory changes, so
/// does its result.
bool has_effect(const ptx::Opcode &opcode);

/// Runs the warp on for a while, and says whether it came back to the same state.
bool spins(Warp &warp);

}  // namespace fa::emu
