// The online softmax of rows whose keys several warps share: each row's reference m, which all of them know, and l, of
// which each has the part of its keys. Weights are 2^(c (x - m)).
#pragma once

#include <cfloat>

#include "collective/rescale.cuh"
#include "common/lanes.cuh"
#include "forward/mma_wide/block.cuh"

namespace fa::kernels::mma_wide {

template <class B>
struct OnlineSoftmax {
  using Rows = typename B::Rows;
  using Scores = typename B::Scores;
  using Out = typename B::Out;

  Rows neg_max, l;

  __device__ OnlineSoftmax() {
    neg_max.fill(FLT_MAX);  // finite: 2^(-inf - m) is 0, not NaN
    l.fill(0);
  }

  /// Writes rowmax S of a warp's keys.
  __device__ static void put_row_max(BlockState<B> &block, const Scores &s) {
    const Rows top = s.row_max();
    const int thread = thread_number();
    unroll<Rows::rows>([&](int r) {
      const float largest = max_over_lanes<4>(top[r]);
      if (thread % 4 == 0) block.top[B::rank(thread / 32)][mma::row_of_tile<B>(thread, r)] = largest;
    });
  }

  /// m' = max(m, rowmax S), l = l a, O = O a with a = 2^(m - m'), for rows whose maximum has moved by more than
  /// rescale_threshold.
  __device__ void update_row_max(Out &o, const BlockState<B> &block) {
    constexpr float offset = Element<B::dtype>::max_offset, limit = offset + Element<B::dtype>::rescale_threshold;
    Rows a;
    bool moved = false;
    const int thread = thread_number();
    unroll<Rows::rows>([&](int r) {
      const int row = mma::row_of_tile<B>(thread, r);
      float t = block.top[0][row];
      unroll<warps_of_rows - 1>([&](int i) { t = fmaxf(t, block.top[i + 1][row]); });
      const float before = neg_max[r];
      const bool moves = (t + before) * log2_e > limit;
      if (moves) neg_max[r] = fabsf(t * log2_e) < exact_score_threshold ? offset / log2_e - t : -t;
      a[r] = ex2_approx_ftz((neg_max[r] - before) * log2_e);
      moved |= moves;
    });
    if (!__any_sync(~0u, moved)) return;
    unroll<Rows::rows>([&](int r) { l[r] *= a[r]; });
    o.scale_rows(a);
  }

  /// P = 2^(c (S - m')) in place of S, l = l + rowsum P.
  __device__ void exponentiate(Scores &s) {
    s.for_each([&](float &x, int r, int) { x = ex2_approx_ftz(exponent(x, log2_e, neg_max[r], true)); });
    s.add_row_sums(l);
  }
};

}  // namespace fa::kernels::mma_wide
