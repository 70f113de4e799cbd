// Scores from products: masks everywhere; in the plain loop the deferred scale, and with
// features a softcap and ALiBi; in the general kernels scale, softcap, bias and ALiBi.
#pragma once

#include "common/features.cuh"
#include "common/finish.cuh"
#include "common/nonfinite.cuh"
#include "mma/block.cuh"

namespace fa::kernels::mma {

/// x = x - slope |i + offset - j|, by which row and which column it is: few distances differ.
template <class B>
__device__ inline void slope_products(typename B::Scores &s, int first_key, const BlockState<B> &block) {
  const int thread = mov_tid_x() & 0x3ff;  // has no sign: see Block::lane_by_mask
  const int64_t query = block.work.first_row + row_of_tile<B>(thread, 0) + block.work.sequence.offset;
  const float distance = float(query - first_key - B::Scores::first_column(thread));  // of the lane's first score
  const float slope = block.slope;
  s.for_each_by_columns(
      [=](float &x, int row, int column) { x = fmaf(-slope, fabsf(distance + float(8 * row - column)), x); });
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

/// Calls f(x, key) for each score x of a lane's row that its interval holds.
template <class B, class F>
__device__ inline void for_each_attended(typename B::Scores &s, int r, int first_key, Interval keys, F f) {
  const int first = first_key + B::Scores::first_column(threadIdx.x);
  s.for_each_in_row(r, [&](float &x, int column) {
    const int key = first + column;
    if (keys.holds(key)) f(x, key);
  });
}

/// x = cap * tanh(x / cap) for the scores of a lane's row. tanh y = 1 - 2 / (1 + e^2y) errs by a few roundings of 1,
/// which matters where the cap is large: near 0 its series serves then.
template <class B, bool LargeCap>
__device__ inline void cap_scores(typename B::Scores &s, int r, float cap, float inverse) {
  s.for_each_in_row(r, [&](float &x, int) {
    const float y = x * inverse, square = y * y;
    const float series = x * fmaf(fmaf(fmaf(-17.f / 315, square, 2.f / 15), square, -1.f / 3), square, 1.f);
    const float by_exponential = cap * (1 - __fdividef(2.f, 1 + ex2_approx_ftz(y * (2 * log2_e))));
    x = LargeCap && fabsf(y) < 0.25f ? series : by_exponential;
  });
}

/// Adds the bias, or only hides what a bias of -inf does.
template <class B>
__device__ inline void add_bias(const Params &p, typename B::Scores &s, int r, int first_key, Interval keys,
                                const char *row, bool add) {
  for_each_attended<B>(s, r, first_key, keys, [&](float &x, int key) {
    const float b = load_element(row + key * p.bias.stride[3], p.bias_dtype);
    x = b == -infinity ? b : add ? x + b : x;
  });
}

/// The scores of a tile from its products, where something changes them. In fa.h's order.
template <class B>
__device__ inline void change_scores(const Params &p, typename B::Scores &s, int first_key,
                                     const BlockState<B> &block) {
  const WorkTile &w = block.work;
  const int thread = mov_tid_x();
  unroll<B::Rows::rows>([&](int r) {
    const int row_in_tile = row_of_tile<B>(thread, r);
    const Interval keys = block.attended(row_in_tile);
    Row row = {};
    if (p.bias.data || p.alibi_slopes.data || p.mask.data) row = row_at(p, w, w.first_row + row_in_tile);
    s.scale_row(r, p.scale);

    const char *bias = p.bias.data ? score_element(p.bias, w.sequence, row, 0) : nullptr;
    if (p.bias.data && p.bias_before_softcap) add_bias<B>(p, s, r, first_key, keys, bias, true);
    if (p.softcap > 256) {
      cap_scores<B, true>(s, r, p.softcap, p.inverse_softcap);
    } else if (p.softcap > 0) {
      cap_scores<B, false>(s, r, p.softcap, p.inverse_softcap);
    }
    if (p.bias.data) add_bias<B>(p, s, r, first_key, keys, bias, !p.bias_before_softcap);
    if (p.alibi_slopes.data && !keys.empty()) {
      const float slope = alibi_slope(p, w.sequence, row.head);
      for_each_attended<B>(s, r, first_key, keys, [&](float &x, int key) {
        const int64_t distance = row.query + w.sequence.offset - key;
        x -= slope * float(distance < 0 ? -distance : distance);
      });
    }
    if (p.mask.data) {
      const char *mask = score_element(p.mask, w.sequence, row, 0);
      for_each_attended<B>(s, r, first_key, keys, [&](float &x, int key) {
        if (mask[key * p.mask.stride[3]] == 0) x = -infinity;
      });
    }
  });
}

/// The scores of a tile from its products; -inf where masked, which in a full tile none is.
template <class B>
__device__ inline void finish_scores(const Params &p, typename B::Scores &s, int first_key, const BlockState<B> &block,
                                     bool full) {
  if (p.has_score_mod) {
    change_scores<B>(p, s, first_key, block);
  } else {
    s.for_each([&](float &x, int, int) { x *= p.scale; });
  }
  if (!full) mask_intervals<B>(s, first_key, block);
}

}  // namespace fa::kernels::mma
