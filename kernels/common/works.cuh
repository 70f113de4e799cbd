// The works of a block in a persistent grid, as the warp that brings their operands hands them to the warps that
// compute; and which of them must be repeated.
#pragma once

#include <climits>

#include "common/lanes.cuh"
#include "common/schedule.cuh"

namespace fa::kernels {

/// Tiles of keys first .. end - 1 that a block visits; every row attends all keys of full_first .. full_end - 1, and
/// some of the later ones, which are visited first.
struct TileRange {
  int first, end, full_first, full_end;
};

/// What a work is taken up for. Rows whose results NaN or Inf has reached, or whose scores are too large, are few:
/// their works are repeated when all others are done, from the start, as nothing but the work is remembered.
enum class Run : int32_t {
  first,
  again,   // the same without results: each lane finds what its rows need
  repair,  // with finite values and exact weights, for those rows
  pause,   // no work: a first run of all works is over
  end      // no work: everything is
};

/// A work, as the producer hands it to the consumers.
struct Item {
  Run run;
  int32_t number;  // among the block's works
  TileRange tiles;
  Work work;
};

/// Works that must be repeated, or as many in a row as share a bit.
struct Verdicts {
  static constexpr int bits = 1024;
  uint32_t word[bits / 32];

  /// By a whole warp.
  __device__ void clear() { word[threadIdx.x % 32] = 0; }
  __device__ bool any() const { return __any_sync(~0u, word[threadIdx.x % 32] != 0); }

  __device__ void set(const Params &p, int32_t number) {
    const int32_t bit = number / works_a_bit(p);
    atomicOr(&word[bit / 32], 1u << bit % 32);
  }
  __device__ bool has(const Params &p, int32_t number) const {
    const int32_t bit = number / works_a_bit(p);
    return word[bit / 32] >> bit % 32 & 1;
  }

 private:
  /// 1, unless there are very many.
  __device__ static int32_t works_a_bit(const Params &p) {
    const int64_t works = (p.schedule.blocks + gridDim.x - 1) / gridDim.x;
    return int32_t((works + bits - 1) / bits);
  }
};

/// Which stage of a ring is next, and the parity of its phase.
template <int Stages>
struct Position {
  uint32_t stage = 0, parity = 0;

  __device__ void advance() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

/// The keys of a split that a row attends.
__device__ inline Interval attended_of_split(const Params &p, const Work &w, Interval split, int32_t row) {
  const Interval keys = attended(p, w.sequence, row_at(p, w, row).query);
  const Interval both = {max(keys.low, split.low), min(keys.high, split.high)};
  return both.empty() ? Interval{0, 0} : both;
}

/// The tiles that hold keys of any row of a work, which is a split's and has up to `Rows` rows. By a whole warp.
template <int Rows, int Keys>
__device__ inline TileRange find_tiles(const Params &p, const Work &w) {
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
