// The softmax that goes along with the tiles (Milakov & Gimelshein 2018): each row's reference m, and l, the sum of its
// weights 2^(c x - m), or 2^(c (x - m)) where that is exact.
#pragma once

#include <cfloat>

#include "mma/block.cuh"

namespace fa::kernels::mma {

/// Where m is set, a row's largest weight becomes 2^lift; it moves only when a weight rises above that by 2^slack:
/// larger ones cost no precision, and sums need not be scaled anew. In f16 a weight of 2^-24 of the largest then keeps
/// all its bits.
constexpr float lift(Dtype type) {
  return type == f16 ? 10 : 0;
}
constexpr float slack(Dtype type) {
  return type == f16 ? 5 : 8;
}
template <class B>
constexpr float most = lift(B::dtype) + slack(B::dtype);
static_assert(lift(f16) + slack(f16) <= 15);

/// From here on c x loses so many bits to its size that c x - m, where x is the largest score, is not near 0.
constexpr float far = 0x1p22f;

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

__device__ inline float nan_value() {
  return __int_as_float(0x7fffffff);
}

/// The largest of the four lanes that share a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

/// The exponent of a weight: c (x - m) of a row that is exact, which is 0 where x is m, however large both are; else
/// c x - m, which is one instruction less.
__device__ inline float exponent(float x, float c, float minus_m, bool exact) {
  return exact ? (x + minus_m) * c : fmaf(x, c, minus_m);
}

/// m' = max(m, c rowmax S), l = l a, O = O a with a = 2^(m - m'): for the rows whose maximum has moved.
template <class B, class Exact>
__device__ inline void move_maxima(Softmax<B> &state, typename B::Out &o, const float (&top)[B::row_blocks][2], float c,
                                   Exact exact) {
#pragma unroll
  for (int i = 0; i < B::row_blocks; i++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const bool is_exact = exact(i, h);
      const float unit = is_exact ? c : 1, before = state.minus_m[i][h];
      const float t = row_max(top[i][h]) * (is_exact ? 1 : c);
      const float lifted = fabsf(t * unit) < far ? __fdividef(lift(B::dtype), unit) - t : -t;
      const float now = (t + before) * unit > most<B> ? lifted : before, a = ex2_approx_ftz((now - before) * unit);
      // Accumulator of weights that were not exact, though they had to be, are worth nothing: the row is worked on
      // again.
      const bool lost = !is_exact && fabsf(before) >= far && state.l[i][h] != 0;
      state.minus_m[i][h] = now;
      state.l[i][h] *= lost ? nan_value() : a;
#pragma unroll
      for (int j = 0; j < B::out_blocks; j++) {
        o[i][j].x[2 * h] *= a;
        o[i][j].x[2 * h + 1] *= a;
      }
    }
  }
}

/// P = 2^(c S - m') in place of S, l = l + rowsum P. exact(i, h) says which rows are.
template <class B, class Exact>
__device__ inline void update(Softmax<B> &state, typename B::Out &o, typename B::Scores &s, float c, Exact exact) {
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
      moved |= exponent(t, c, state.minus_m[i][h], exact(i, h)) > most<B>;
    }
  }
  if (__any_sync(~0u, moved)) move_maxima<B>(state, o, top, c, exact);
#pragma unroll
  for (int i = 0; i < B::row_blocks; i++) {
#pragma unroll
    for (int j = 0; j < B::score_blocks; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        float &x = s[i][j].x[e];
        x = ex2_approx_ftz(exponent(x, c, state.minus_m[i][e / 2], exact(i, e / 2)));
        state.l[i][e / 2] += x;
      }
    }
  }
}

}  // namespace fa::kernels::mma
