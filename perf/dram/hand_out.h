// When the last block of a launch ends, on multiprocessors that differ: some are slow, or another kernel occupies them.
// Lengths of work tiles, and times, are in iterations of the loop over keys.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/forward_plan.h"

namespace fa::dram {

/// Of a device. No block of a launch gets to those that are taken; slow ones are half as fast.
struct Multiprocessors {
  int64_t count, taken = 0, slow = 0;
};

/// How blocks get work tiles.
struct HandOut {
  enum Way {
    grid,     // each block has one, and may take over that of a block which has not begun
    stride,   // of a persistent grid of n blocks: every n-th one
    tickets,  // of a persistent grid: after the first, one that no block has
  };
  Way way;
  int64_t slots;     // blocks that the device works on at once
  double ahead = 0;  // a block takes its next work tile this long before it needs it

  /// That of a plan's first launch.
  static HandOut of(const cuda::ForwardPlan &plan);
};

/// The end of the last block; that of even shares, or of the longest work tile; and the least one that any hand-out of
/// work tiles of one length reaches.
struct End {
  double last, even, best;

  double unevenness() const { return last / even; }
};

End end_of(const std::vector<double> &lengths, const HandOut &hand_out, const Multiprocessors &multiprocessors);

/// The work tiles of a plan's first launch, in order.
std::vector<double> lengths_of(const cuda::ForwardPlan &plan);

}  // namespace fa::dram
