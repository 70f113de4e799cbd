// From sums to results: O / l, lse, partial results of a split; and the rows that need a second pass.
#pragma once

#include "collective/epilogue.cuh"
#include "collective/nonfinite.cuh"
#include "common/lanes.cuh"
#include "forward/mma/load.cuh"
#include "forward/mma/scores.cuh"
#include "forward/mma/softmax.cuh"

namespace fa::kernels::mma {

/// Not 0 when a lane's part of a row holds NaN or Inf.
template <class B>
__device__ inline float any_nonfinite(const typename B::Out &o, int r) {
  float zero = 0;
  o.for_each_pair_in_row(r, [&](float x, float y, int) { zero = fmaf(x, 0.f, fmaf(y, 0.f, zero)); });
  return zero;
}

/// Calls f(row of the tile, column, sum) for 8 rows of a warp's, by way of its part of the tile of queries, where they
/// fit as floats: neighbouring lanes have neighbouring columns.
template <class B, class F>
__device__ inline void for_each_element(const typename B::Out &o, int r, int columns, uint32_t tile, F f) {
  const int thread = mov_tid_x(), lane = thread % 32, first = row_of_tile<B>(thread, r) - lane / 4;
  float *const staged = reinterpret_cast<float *>(__cvta_shared_to_generic(tile)) + thread / 32 * 8 * B::dim;
  float *const to = staged + lane / 4 * B::dim + lane % 4 * 2;
  const int exchange = lane / 4 % 4;  // of blocks of 8 columns, so that rows do not share banks
  __syncwarp();
  o.for_each_pair_in_row(
      r, [=](float x, float y, int j) { *reinterpret_cast<float2 *>(to + (j ^ exchange) * 8) = {x, y}; });
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < 8; i++)
#pragma unroll 1
    for (int d = lane; d < columns; d += 32) f(first + i, d, staged[i * B::dim + (d ^ i % 4 * 8)]);
}

/// Writes a warp's rows in whole chunks, by way of its part of the tile of queries.
template <class B>
__device__ inline void store_chunks(const Params &p, const WorkTile &w, const typename B::Out &o, uint32_t tile) {
  using Tile = typename B::QueryTile;
  constexpr int chunks = B::dim / 8;
  const int thread = mov_tid_x(), lane = thread % 32;
  unroll<B::Rows::rows>([&](int r) {
    const int row = row_of_tile<B>(thread, r);
    o.for_each_pair_in_row(r, [&](float x, float y, int j) {
      st_shared_b32(tile + Tile::offset(row, j) + lane % 4 * 4, pack<typename B::Element>(x, y));
    });
  });
  __syncwarp();
#pragma unroll 1
  for (int i = lane; i < B::warp_rows * chunks; i += 32) {
    const int r = thread / 32 * B::warp_rows + i / chunks, chunk = i % chunks;
    if (w.first_row + r < w.rows && chunk * 8 < p.head_dim_v)
      *reinterpret_cast<uint4 *>(out_row(p, w.sequence, B::row_of(p, w, w.first_row + r)) + chunk * 16) =
          ld_shared_v4_b32(tile + Tile::offset(r, chunk));
  }
}

/// The reference of a row in units of scores, from the softmax's -m.
template <class B>
__device__ inline float reference(const Params &p, float neg_max, bool exact) {
  const float from_zero = -neg_max * (!B::plain ? 1 : !exact ? ln_2 : B::score_mod ? score_scale(p) : p.scale);
  return B::score_mod ? p.softcap + from_zero : from_zero;
}

/// The Fixup bits of a row, from the sums of the first pass.
template <class B>
__device__ inline int fixups_of(const BlockState<B> &block, int r, float neg_max, float l, bool nonfinite) {
  const Interval keys = block.attended(r);
  const bool needs_exact =
      B::plain && !keys.empty() && (l == 0 || !is_finite(l) || fabsf(neg_max) >= exact_score_threshold);
  // Where weights are exact, a sum l that is not finite comes from a score that is attended: the row is right.
  // Without keys a row of plain is 0 in any case.
  const bool special = nonfinite && !(B::plain && keys.empty()) && (needs_exact || is_finite(l));
  return (needs_exact ? exact_weights : 0) | (special ? finite_values : 0);
}

/// Writes a block's results, and notes which rows need a second pass, which then has sums of finite values
/// and exact weights. True when this lane's rows hold one of those.
template <class B>
__device__ inline bool store(const Params &p, BlockState<B> *block, typename B::Out &o, const OnlineSoftmax<B> &online,
                             uint32_t tile, bool second_run) {
  const WorkTile &w = block->work;
  const bool partial = B::splits && p.schedule.num_splits > 1;
  const bool chunks = !partial && !second_run && p.out_dtype == B::dtype &&
                      (B::plain || (has_aligned_rows(p.out) && p.head_dim_v % 8 == 0));
  bool needs_fixup = false;
  unroll<B::Rows::rows>([&](int row_of_lane) {
    const int thread = mov_tid_x(), r = row_of_tile<B>(thread, row_of_lane);
    const bool exists = w.first_row + r < w.rows, writes = exists && thread % 4 == 0;
    const bool exact = B::plain && second_run && (block->fixups[r] & exact_weights);
    const float neg_max = online.neg_max[row_of_lane], l = sum_over_lanes<4>(online.l[row_of_lane]);
    const Softmax softmax = {l == 0 ? -infinity : reference<B>(p, neg_max, exact), l};
    // Before results are finished where weights may be lost: of a sum l of 0 nothing is left then.
    float zero = B::plain && !second_run ? any_nonfinite<B>(o, row_of_lane) : 0;
    if (partial) {
      if (writes) store_partial(p, w.partial_row + r, softmax);
    } else if (exists) {
      const Row row = B::row_of(p, w, w.first_row + r);
      const float factor = finish_row(p, w.sequence, row, softmax, sink_of(p, w.sequence, row), writes);
      o.for_each_in_row(row_of_lane, [=](float &x, int) { x = finished(x, 0, factor, softmax); });
    }
    if (!second_run) {
      if constexpr (!B::plain) zero = any_nonfinite<B>(o, row_of_lane);
      const bool nonfinite = sum_over_lanes<4>(zero) != 0;
      const int fixups = exists ? fixups_of<B>(*block, r, neg_max, l, nonfinite) : 0;
      if (thread % 4 == 0) block->fixups[r] = uint8_t(fixups);
      needs_fixup |= fixups != 0;
    } else {
      // Scores of -inf alone leave no key, whatever the values are: the row is written as it is.
      __syncwarp();
      if (thread % 4 == 0 && l == 0 && block->fixups[r]) block->fixups[r] = exact_weights;
      __syncwarp();
    }
    if (chunks || (second_run && !__any_sync(~0u, block->fixups[r]))) return;
    for_each_element<B>(o, row_of_lane, p.head_dim_v, tile, [&](int at, int d, float x) {
      if (w.first_row + at >= w.rows || (second_run && !block->fixups[at])) return;
      const Row row = B::row_of(p, w, w.first_row + at);
      if (second_run && (block->fixups[at] & finite_values) && is_finite(x)) {
        const float special = nonfinite_sum<B::has_trees>(p, w, row, block->attended(at), d);
        x = special == 0 ? x : special;
      }
      if (partial) {
        p.o_partial[(w.partial_row + at) * p.head_dim_v + d] = x;
      } else {
        store_element(out_row(p, w.sequence, row) + d * p.out.stride[3], p.out_dtype, x);
      }
    });
  });
  if (chunks) store_chunks<B>(p, w, o, tile);
  return needs_fixup;
}

}  // namespace fa::kernels::mma
