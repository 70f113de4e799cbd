// The softmax that goes along with the tiles (Milakov & Gimelshein 2018): each row's reference m, and l, the sum of its
// weights 2^(c x - m).
#pragma once

#include <cfloat>

#include "mma/block.cuh"

namespace fa::kernels::mma {

/// A larger score moves m only when it is above it by this: weights up to 2^slack cost no precision, and sums need not
/// be scaled anew.
constexpr float slack = 8;

/// Rows g and g + 8 of each block of 16: -m, as it is added, and this lane's part of l.
template <class B>
struct Softmax {
  float minus_m[B::row_blocks][2], l[B::row_blocks][2];

  __device__ Softmax() {
#pragma unroll
    for (int i = 0; i < B::row_blocks; i++)
      for (int h = 0; h < 2; h++) minus_m[i][h] = FLT_MAX, l[i][h] = 0;  // finite: 2^(-inf - m) is 0, not NaN
  }
};

/// The largest of the four lanes that share a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

/// m' = max(m, c rowmax S), l = l a, O = O a with a = 2^(m - m'): for the rows whose maximum has moved.
template <class B>
__device__ inline void move_maxima(Softmax<B> &state, typename B::Out &o, const float (&top)[B::row_blocks][2],
                                   float c) {
#pragma unroll
  for (int i = 0; i < B::row_blocks; i++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const float t = row_max(top[i][h]) * c, before = state.minus_m[i][h];
      const float now = t + before > slack ? -t : before, a = exp2_fast(now - before);
      state.minus_m[i][h] = now;
      state.l[i][h] *= a;
#pragma unroll
      for (int j = 0; j < B::out_blocks; j++) {
        o[i][j].x[2 * h] *= a;
        o[i][j].x[2 * h + 1] *= a;
      }
    }
  }
}

/// P = 2^(c S - m') in place of S, l = l + rowsum P.
template <class B>
__device__ inline void update(Softmax<B> &state, typename B::Out &o, typename B::Scores &s, float c) {
  float top[B::row_blocks][2];
  bool moved = false;
#pragma unroll
  for (int i = 0; i < B::row_blocks; i++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float t = s[i][0].x[2 * h];
#pragma unroll
      for (int j = 0; j < B::score_blocks; j++) t = fmaxf(fmaxf(t, s[i][j].x[2 * h]), s[i][j].x[2 * h + 1]);
      top[i][h] = t;
      moved |= fmaf(t, c, state.minus_m[i][h]) > slack;
    }
  }
  if (__any_sync(~0u, moved)) move_maxima<B>(state, o, top, c);
#pragma unroll
  for (int i = 0; i < B::row_blocks; i++) {
#pragma unroll
    for (int j = 0; j < B::score_blocks; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float &x = s[i][j].x[e];
        x = exp2_fast(fmaf(x, c, state.minus_m[i][e / 2]));
        state.l[i][e / 2] += x;
      }
    }
  }
}

}  // namespace fa::kernels::mma
