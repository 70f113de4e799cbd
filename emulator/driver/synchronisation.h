// Synchronisation between a launch's blocks: the instructions that go to the L2 for it, and how often. A part of its
// report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/launch.h"

namespace fa::emu::driver {

/// One instruction that goes to the L2 or waits for it.
struct Synchronisation {
  enum Kind : uint8_t {
    round_trip,  // an atom, or a load that other blocks' stores must be seen by: its warp waits for the L2
    reduction,   // a red, for which nobody waits
    fence,       // of the GPU or the system, or the release in a store or an atom: a MEMBAR
    poll,        // an iteration, in vain, of a loop that only waits
  };
  Kind kind = round_trip;
  uint32_t pc = 0;
  uint64_t warps = 0;
  // The innermost loop around it that does something else than wait; 0: none.
  uint32_t first_line = 0, last_line = 0;
  double per_iteration = 0;  // of a warp in that loop
};

/// In the order of the program.
std::vector<Synchronisation> synchronisation_of(const Launch &launch);

void print(const Launch &launch, const std::vector<Synchronisation> &all);
/// Fields of an object, each with a comma before.
std::string json_of(const Launch &launch, const std::vector<Synchronisation> &all);

}  // namespace fa::emu::driver
