// The query tiles that a block which owns keys streams: which of them, and in which order; and the weights of their
// pairs.
#pragma once

#include "collective/backward_tile_scheduler.cuh"

namespace fa::kernels {

/// A query tile of one head of the group. The order is from the last tile to the first, all heads of each: blocks that
/// add to dq in a fixed order then never wait for a block that has more tiles.
struct StreamCoord {
  int head, tile;

  __device__ void advance(int group) {
    if (++head == group) head = 0, tile--;
  }
};

/// The queries that attend all keys first .. end - 1 of a sequence.
__device__ inline Interval full_query_range(const BackwardParams &p, const Sequence &s, int32_t first, int32_t end) {
  if (!p.has_key_bounds) return {0, s.queries};
  return queries_of_all_keys(p, p.causal != 0, s, first, int64_t{end} - 1);
}

/// The tiles of a range of queries.
template <class B>
__device__ inline Interval tiles_of(Interval queries) {
  return {queries.low / B::columns, (queries.high + B::columns - 1) / B::columns};
}

/// The weight of a pair that does not attend: +-0, and no other weight is negative.
constexpr float no_weight = -0.f;

__device__ inline bool has_weight(float weight) {
  return __float_as_int(weight) != int(0x80000000);
}

}  // namespace fa::kernels
