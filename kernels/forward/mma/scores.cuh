// Scores from products: masks everywhere; in the plain loop the deferred scale, and with
// features a softcap and ALiBi; in the general kernels scale, softcap, bias and ALiBi.
#pragma once

#include "collective/deferred_score_mod.cuh"
#include "collective/epilogue.cuh"
#include "collective/nonfinite.cuh"
#include "collective/score_mod.cuh"
#include "forward/mma/block.cuh"

namespace fa::kernels::mma {

/// ALiBi, by which row and which column it is: few distances differ.
template <class B>
__device__ inline void slope_products(typename B::Scores &s, int first_key, const BlockState<B> &block) {
  const int thread = mov_tid_x() & 0x3ff;  // has no sign: see Block::lane_by_mask
  const int64_t query = block.work.first_row + row_of_tile<B>(thread, 0) + block.work.sequence.offset;
  const float distance = float(query - first_key - B::Scores::first_column(thread));  // of the lane's first score
  const float slope = block.slope;
  s.for_each_by_columns(
      [=](float &x, int row, int column) { x = add_alibi(x, slope, distance + float(8 * row - column)); });
}

/// Scores of keys outside each row's interval become -inf, NaN included.
template <class B>
__device__ inline void mask_intervals(typename B::Scores &s, int first_key, const BlockState<B> &block) {
  const int thread = mov_tid_x(), first = first_key + B::Scores::first_column(thread);
  unroll<B::Rows::rows>([&](int r) {
    const Interval keys = block.attended(row_of_tile<B>(thread, r));
    const Interval columns = {keys.low - first, keys.high - first};
    s.for_each_in_row(r, [=](float &x, int column) {
      if (!columns.holds(column)) x = -infinity;
    });
  });
}

/// tanh y = 1 - 2 / (1 + e^2y) errs by a few roundings of 1, which matters where the cap is large: near 0 its series is
/// used then.
template <bool LargeCap>
__device__ inline float softcapped(float x, float cap, float inverse) {
  const float y = x * inverse, square = y * y;
  const float series = x * fmaf(fmaf(fmaf(-17.f / 315, square, 2.f / 15), square, -1.f / 3), square, 1.f);
  const float by_exponential = cap * (1 - __fdividef(2.f, 1 + ex2_approx_ftz(y * (2 * log2_e))));
  return LargeCap && fabsf(y) < 0.25f ? series : by_exponential;
}

/// A lane's row of a tile of scores, with the steps of core/score.h.
template <class B>
struct RowOfScores {
  typename B::Scores &s;
  const Params &p;
  const WorkTile &w;
  int r, first_key;  // the lane's row; the key of its first score
  Row row;
  Interval keys;  // that the row attends

  /// Calls f(x, key) for each score x whose key the row attends.
  template <class F>
  __device__ void for_each_attended(F f) {
    s.for_each_in_row(r, [&](float &x, int column) {
      const int key = first_key + column;
      if (keys.holds(key)) f(x, key);
    });
  }

  __device__ void multiply_by_scale() { s.scale_row(r, p.scale); }

  template <bool LargeCap>
  __device__ void cap() {
    s.for_each_in_row(r, [&](float &x, int) { x = softcapped<LargeCap>(x, p.softcap, p.inverse_softcap); });
  }
  __device__ void apply_softcap() { p.softcap > 256 ? cap<true>() : cap<false>(); }

  template <class F>
  __device__ void with_bias(F f) {
    const char *const bias = score_element(p.bias, w.sequence, row, 0);
    for_each_attended([&](float &x, int key) {
      const float b = load_element(bias + key * p.bias.stride[3], p.bias_dtype);
      x = b == -infinity ? b : f(x, b);
    });
  }
  __device__ void add_bias() {
    with_bias([](float x, float b) { return x + b; });
  }
  __device__ void finish_bias(bool added) {
    with_bias([=](float x, float b) { return added ? x : x + b; });
  }

  __device__ void add_alibi() {
    if (keys.empty()) return;
    const float slope = alibi_slope(p, w.sequence, row.head);
    for_each_attended([&](float &x, int key) {
      const int64_t distance = row.query + w.sequence.offset - key;
      x -= slope * float(distance < 0 ? -distance : distance);
    });
  }

  __device__ void hide_masked() {
    const char *const mask = score_element(p.mask, w.sequence, row, 0);
    for_each_attended([&](float &x, int key) {
      if (mask[key * p.mask.stride[3]] == 0) x = -infinity;
    });
  }
};

/// The scores of a tile from its products, where more than the scale changes them.
template <class B>
__device__ inline void modify_scores(const Params &p, typename B::Scores &s, int first_key,
                                     const BlockState<B> &block) {
  const WorkTile &w = block.work;
  const int thread = mov_tid_x(), first = first_key + B::Scores::first_column(threadIdx.x);
  unroll<B::Rows::rows>([&](int r) {
    const int row_in_tile = row_of_tile<B>(thread, r);
    Row row = {};
    if (p.bias.data || p.alibi_slopes.data || p.mask.data) row = row_at(p, w, w.first_row + row_in_tile);
    modify(RowOfScores<B>{s, p, w, r, first, row, block.attended(row_in_tile)}, score_rule(p));
  });
}

/// Scores of new tokens that the tree hides become -inf. Each lane looks at one of the warp's rows.
template <class B>
__device__ inline void hide_in_tree(const Params &p, typename B::Scores &s, int first_key, const BlockState<B> &block) {
  static_assert(B::warp_rows <= 32);
  const WorkTile &w = block.work;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, token = first_key - first_new_key(w.sequence);
  const int row_of_lane = w.first_row + B::first_row(warp) + lane % B::warp_rows;
  const Row row = row_at(p, w, min(row_of_lane, w.rows - 1));
  static_assert(B::warp_keys <= 64);
  uint64_t attended = 0;
#pragma unroll 1
  for (int i = 0; i < B::warp_keys; i += 32) attended |= uint64_t{attended_tokens(p, w.sequence, row, token + i)} << i;
  unroll<B::Rows::rows>([&](int r) {
    const uint64_t bits = __shfl_sync(~0u, attended, r * 8 + B::Out::first_row(lane)) >> B::Scores::first_column(lane);
    s.for_each_in_row(r, [&](float &x, int column) {
      if ((bits >> column & 1) == 0) x = -infinity;
    });
  });
}

/// The scores of a tile from its products; -inf where masked, which in a full tile none is, but for trees.
template <class B>
__device__ inline void finish_scores(const Params &p, typename B::Scores &s, int first_key, const BlockState<B> &block,
                                     bool full) {
  if (p.has_score_mod) {
    modify_scores<B>(p, s, first_key, block);
  } else {
    s.for_each([&](float &x, int, int) { x *= p.scale; });
  }
  if (!full) mask_intervals<B>(s, first_key, block);
  if (p.tree_mask.data && first_key + B::warp_keys > first_new_key(block.work.sequence))
    hide_in_tree<B>(p, s, first_key, block);
}

}  // namespace fa::kernels::mma
