// The work tiles of a block in a persistent grid, as the producer warp hands them to the consumers; and the fix-up pass
// over those that NaN, Inf or very large scores have spoilt.
#pragma once

#include <climits>

#include "common/lanes.cuh"
#include "common/tile_scheduler.cuh"

namespace fa::kernels {

/// The key blocks of a work tile: first .. end - 1. Every row attends all keys of blocks full_first .. full_end - 1;
/// blocks outside them are masked. The order is last to first.
struct KeyBlockRange {
  int first, end, full_first, full_end;
};

/// The reason why a work tile is processed. Rows that NaN or Inf has reached, or whose scores are too large for the
/// fast path, are few. Their work tiles are recomputed from the start when all others are done.
enum class WorkPass : int32_t {
  main,
  detect,  // computes again, writes nothing: each lane finds the Fixup bits of its rows
  fixup,   // recomputes those rows, with finite values and exact weights
  drain,   // no work tile: the main pass over all work tiles is done
  done     // no work tile: all passes are
};

/// A work tile, as the producer hands it to the consumers.
struct WorkItem {
  WorkPass pass;
  int32_t number;  // among the block's work tiles
  KeyBlockRange tiles;
  WorkTile work;
};

/// The work tiles that need a fix-up pass. A bit covers several consecutive ones where a block has more than `bits`.
struct FixupBitmap {
  static constexpr int bits = 1024;
  uint32_t word[bits / 32];

  /// By a whole warp.
  __device__ void clear() { word[threadIdx.x % 32] = 0; }
  __device__ bool any() const { return __any_sync(~0u, word[threadIdx.x % 32] != 0); }

  __device__ void set(const Params &p, int32_t number) {
    const int32_t bit = number / tiles_per_bit(p);
    atomicOr(&word[bit / 32], 1u << bit % 32);
  }
  __device__ bool has(const Params &p, int32_t number) const {
    const int32_t bit = number / tiles_per_bit(p);
    return word[bit / 32] >> bit % 32 & 1;
  }

 private:
  /// 1 unless the block has more work tiles than bits.
  __device__ static int32_t tiles_per_bit(const Params &p) {
    const int64_t tiles = (p.schedule.blocks + gridDim.x - 1) / gridDim.x;
    return int32_t((tiles + bits - 1) / bits);
  }
};

/// The next stage of a pipeline, and the parity of its mbarrier's phase.
template <int Stages>
struct PipelineState {
  uint32_t stage = 0, parity = 0;

  __device__ void advance() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

/// The keys of a split that a row attends.
__device__ inline Interval attended_of_split(const Params &p, const WorkTile &w, Interval split, int32_t row) {
  const Interval keys = attended(p, w.sequence, row_at(p, w, row).query);
  const Interval both = {max(keys.low, split.low), min(keys.high, split.high)};
  return both.empty() ? Interval{0, 0} : both;
}

/// The key blocks that hold keys of any row of a work tile of up to `Rows` rows and one split. Called by whole warps.
template <int Rows, int Keys>
__device__ inline KeyBlockRange key_block_range(const Params &p, const WorkTile &w) {
  const Interval split = keys_of_split(p, w.sequence, w.split, Keys);
  int low = INT_MAX, high = 0, full_low = 0, full_high = INT_MAX;
#pragma unroll 1
  for (int r = w.first_row + threadIdx.x % 32; r < min(w.first_row + min(Rows, p.schedule.tile_rows), w.rows);
       r += 32) {
    const Interval keys = attended_of_split(p, w, split, r);
    if (!keys.empty()) low = min(low, keys.low), high = max(high, keys.high);
    full_low = max(full_low, keys.low), full_high = min(full_high, keys.high);
  }
  low = min_over_lanes<32>(low), high = max_over_lanes<32>(high);
  full_low = max_over_lanes<32>(full_low), full_high = min_over_lanes<32>(full_high);
  if (low >= high) return {0, 0, 0, 0};
  return {low / Keys, (high - 1) / Keys + 1, int((uint32_t(full_low) + Keys - 1) / Keys),
          int((uint32_t(max(full_high, 1)) - 1) / Keys)};
}

}  // namespace fa::kernels
