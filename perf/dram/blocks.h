// The work of every block that a plan starts, from the kernels' function.
#pragma once

#include <vector>

#include "perf/dram/host.h"
// After it, which has CUDA's words.
#include "collective/tile_scheduler.cuh"
#include "cuda/derive.h"
#include "cuda/forward_plan.h"

namespace fa::dram {

struct Block {
  kernels::WorkTile work;
  kernels::Interval keys;  // that any of its rows attends, within its split
  int64_t scores;          // of these rows with these keys

  /// Of the loop over keys.
  int32_t iterations(const kernels::TileConfig &tile) const {
    return keys.empty() ? 0 : (keys.high - 1) / tile.keys + 1 - keys.low / tile.keys;
  }
};

/// The time of a block outside its loop over keys, in iterations of the loop.
constexpr double iterations_outside = 2;

/// Those of one launch, in the order in which a device starts them; grids are not persistent.
std::vector<Block> blocks_of(const kernels::Params &params, const kernels::TileConfig &tile, int64_t tiles);

/// The parameters of each launch of a plan, one after another, and how many tiles it has: launch(params, tiles).
template <class F>
void for_each_launch(const cuda::ForwardPlan &plan, F launch) {
  kernels::Params params = plan.params;
  for (const cuda::LaunchLoop &loop : plan.loops()) {
    cuda::set_schedule(loop.schedule, &params);
    for (int64_t first = 0; first < loop.tiles; first += loop.tiles_per_launch) {
      params.schedule.first_tile = loop.first_tile + first;
      launch(params, std::min(loop.tiles_per_launch, loop.tiles - first));
    }
  }
}

}  // namespace fa::dram
