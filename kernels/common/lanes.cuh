// Reductions over neighbouring lanes of a warp.
#pragma once

#include "common/ptx.cuh"

namespace fa::kernels {

/// f over the numbers of Lanes neighbouring lanes, in each of them.
template <int Lanes, class T, class F>
__device__ inline T over_lanes(T x, F f) {
#pragma unroll
  for (int d = 1; d < Lanes; d *= 2) x = f(x, __shfl_xor_sync(~0u, x, d));
  return x;
}

template <int Lanes, class T>
__device__ inline T max_over_lanes(T x) {
  return over_lanes<Lanes>(x, [](T a, T b) { return max(a, b); });
}

template <int Lanes, class T>
__device__ inline T min_over_lanes(T x) {
  return over_lanes<Lanes>(x, [](T a, T b) { return min(a, b); });
}

/// The minimum over a warp.
__device__ inline int min_over_warp(int x) {
  if constexpr (this_arch.number >= 80) return redux_sync_min_s32(x);
  return min_over_lanes<32>(x);
}
__device__ inline int max_over_warp(int x) {
  if constexpr (this_arch.number >= 80) return redux_sync_max_s32(x);
  return max_over_lanes<32>(x);
}

/// A warp-uniform value, forced into a register: the compiler neither knows it nor recomputes it, between products that
/// should follow one another.
template <class T>
__device__ inline T in_register(T x) {
  return __shfl_sync(~0u, threadIdx.x % 32 == 0 ? x : 0, 0);
}

template <int Lanes>
__device__ inline float sum_over_lanes(float x) {
  return over_lanes<Lanes>(x, [](float a, float b) { return a + b; });
}

}  // namespace fa::kernels
