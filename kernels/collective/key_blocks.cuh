// The key blocks of a work tile: those that hold keys of any of its rows, and those that need no mask.
#pragma once

#include <climits>

#include "collective/tile_scheduler.cuh"
#include "common/lanes.cuh"

namespace fa::kernels {

/// The key blocks of a work tile: first .. end - 1. Every row attends all keys of blocks full_first .. full_end - 1;
/// blocks outside them are masked. The order is last to first.
struct KeyBlockRange {
  int first, end, full_first, full_end;

  __device__ bool full(int block) const { return full_first <= block && block < full_end; }
};

/// The keys low <= j < high that any of some rows attends, and those full_low <= j < full_high that all of them attend.
struct KeysOfRows {
  int low = INT_MAX, high = 0, full_low = 0, full_high = INT_MAX;

  __device__ void add(Interval keys) {
    if (!keys.empty()) low = min(low, keys.low), high = max(high, keys.high);
    full_low = max(full_low, keys.low), full_high = min(full_high, keys.high);
  }

  /// Extends the bounds to the rows of all lanes.
  __device__ void reduce_over_warp() {
    low = min_over_warp(low), high = max_over_warp(high);
    full_low = max_over_warp(full_low), full_high = min_over_warp(full_high);
  }

  __device__ bool empty() const { return low >= high; }
};

/// The keys of a split that a row attends.
__device__ inline Interval attended_of_split(const Params &p, const WorkTile &w, Interval split, int32_t row) {
  const Interval keys = attended(p, w.sequence, row_at(p, w, row).query);
  const Interval both = {max(keys.low, split.low), min(keys.high, split.high)};
  return both.empty() ? Interval{0, 0} : both;
}

/// The key blocks of a work tile of up to `Rows` rows and one split. The block of the last key that all rows attend
/// counts as masked. Called by whole warps.
template <int Rows, int Keys>
__device__ inline KeyBlockRange key_block_range(const Params &p, const WorkTile &w) {
  const Interval split = keys_of_split(p, w.sequence, w.split, Keys);
  KeysOfRows rows;
#pragma unroll 1
  for (int r = w.first_row + threadIdx.x % 32; r < min(w.first_row + min(Rows, p.schedule.tile_rows), w.rows); r += 32)
    rows.add(attended_of_split(p, w, split, r));
  rows.reduce_over_warp();
  if (rows.empty()) return {0, 0, 0, 0};
  return {rows.low / Keys, (rows.high - 1) / Keys + 1, int((uint32_t(rows.full_low) + Keys - 1) / Keys),
          int((uint32_t(max(rows.full_high, 1)) - 1) / Keys)};
}

}  // namespace fa::kernels
