// The bytes that a call reads from a device's memory: its blocks' tiles, in the order of the schedule, through an LRU
// cache as its L2. Nothing is executed.
#pragma once

#include "perf/dram/calls.h"

namespace fa::dram {

struct Traffic {
  int64_t read = 0, written = 0;  // bytes
  double operations = 0;          // of both products
  double taken = 0, time = 0;     // of the device's slots for blocks, in iterations of the loop over keys

  /// TFLOP/s that the memory lets through.
  double bound(const Gpu &gpu) const;

  /// The part of the time for which a block's place on the device is taken, on the average.
  double busy() const { return taken / time; }
};

/// drift: by how much the fastest of the blocks that work side by side gets ahead of the slowest, as a part of the
/// time.
Traffic traffic_of(const cuda::ForwardPlan &plan, const Gpu &gpu, double drift = 0.1);

/// The same with a cache that holds everything: the least traffic.
Traffic min_traffic_of(const cuda::ForwardPlan &plan);

/// The plan with all columns in one group, as calls were ordered before.
cuda::ForwardPlan one_group(const cuda::ForwardPlan &plan);

}  // namespace fa::dram
