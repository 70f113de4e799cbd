// What a score is, beyond the product: masks everywhere; in the general kernels scale, softcap, bias and ALiBi.
#pragma once

#include <cfloat>

#include "common/finish.cuh"
#include "common/repair.cuh"
#include "mma/block.cuh"

namespace fa::kernels::mma {

/// Scores of keys outside each row's interval become -inf, NaN included.
template <class B>
__device__ inline void mask_intervals(typename B::Scores &s, int first_key, const Kept<B> &kept) {
  const int thread = mov_tid_x(), first = first_key + thread % 4 * 2;
#pragma unroll
  for (int i = 0; i < B::row_blocks; i++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const Interval keys = kept.attended(row_of_sums<B>(thread, i, h));
      const int low = keys.low - first, high = keys.high - first;
#pragma unroll
      for (int j = 0; j < B::score_blocks; j++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const int key = j * 8 + e;
          if (key < low || key >= high) s[i][j].x[2 * h + e] = -infinity;
        }
      }
    }
  }
}

/// Calls f(x, key) for each score x of a lane's row that its interval holds.
template <class B, class F>
__device__ inline void for_each_attended(typename B::Scores &s, int i, int h, int first_key, Interval keys, F f) {
#pragma unroll
  for (int j = 0; j < B::score_blocks; j++) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int key = first_key + threadIdx.x % 4 * 2 + j * 8 + e;
      if (key >= keys.low && key < keys.high) f(s[i][j].x[2 * h + e], key);
    }
  }
}

/// x = cap * tanh(x / cap) for the scores of a lane's row. tanh y = 1 - 2 / (1 + e^2y) errs by a few roundings of 1,
/// which matters where the cap is large: near 0 its series serves then.
template <class B, bool LargeCap>
__device__ inline void cap_scores(typename B::Scores &s, int i, int h, float cap) {
  const float inverse = fminf(1 / cap, FLT_MAX / (2 * log2_e));
#pragma unroll
  for (int j = 0; j < B::score_blocks; j++) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      float &x = s[i][j].x[2 * h + e];
      const float y = x * inverse, square = y * y;
      const float series = x * fmaf(fmaf(fmaf(-17.f / 315, square, 2.f / 15), square, -1.f / 3), square, 1.f);
      const float by_exponential = cap * (1 - __fdividef(2.f, 1 + ex2_approx_ftz(y * (2 * log2_e))));
      x = LargeCap && fabsf(y) < 0.25f ? series : by_exponential;
    }
  }
}

/// Adds the bias, or only hides what a bias of -inf does.
template <class B>
__device__ inline void add_bias(const Params &p, typename B::Scores &s, int i, int h, int first_key, Interval keys,
                                const char *row, bool add) {
  for_each_attended<B>(s, i, h, first_key, keys, [&](float &x, int key) {
    const float b = load_element(row + key * p.bias.stride[3], p.bias_dtype);
    x = b == -infinity ? b : add ? x + b : x;
  });
}

/// The scores of a tile from its products; -inf where masked. In fa.h's order.
template <class B>
__device__ inline void finish_scores(const Params &p, typename B::Scores &s, int first_key, const Kept<B> &kept) {
  const Work &w = kept.work;
  const int thread = mov_tid_x();
#pragma unroll
  for (int i = 0; i < B::row_blocks; i++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int r = row_of_sums<B>(thread, i, h);
      const Interval keys = kept.attended(r);
      Row row = {};
      if (p.bias.data || p.alibi_slopes.data || p.mask.data) row = row_at(p, w, w.first_row + r);
#pragma unroll
      for (int j = 0; j < B::score_blocks; j++) s[i][j].x[2 * h] *= p.scale, s[i][j].x[2 * h + 1] *= p.scale;

      const char *bias = p.bias.data ? score_element(p.bias, w.sequence, row, 0) : nullptr;
      if (p.bias.data && p.bias_before_softcap) add_bias<B>(p, s, i, h, first_key, keys, bias, true);
      if (p.softcap > 256) {
        cap_scores<B, true>(s, i, h, p.softcap);
      } else if (p.softcap > 0) {
        cap_scores<B, false>(s, i, h, p.softcap);
      }
      if (p.bias.data) add_bias<B>(p, s, i, h, first_key, keys, bias, !p.bias_before_softcap);
      if (p.alibi_slopes.data && keys.low < keys.high) {
        const float slope = *reinterpret_cast<const float *>(
            p.alibi_slopes.data + w.sequence.index * p.alibi_slopes.stride[0] + row.head * p.alibi_slopes.stride[1]);
        for_each_attended<B>(s, i, h, first_key, keys, [&](float &x, int key) {
          const int64_t distance = row.query + w.sequence.offset - key;
          x -= slope * float(distance < 0 ? -distance : distance);
        });
      }
      if (p.mask.data) {
        const char *mask = score_element(p.mask, w.sequence, row, 0);
        for_each_attended<B>(s, i, h, first_key, keys, [&](float &x, int key) {
          if (mask[key * p.mask.stride[3]] == 0) x = -infinity;
        });
      }
    }
  }
  mask_intervals<B>(s, first_key, kept);
}

}  // namespace fa::kernels::mma
