// Numbers that kernels share, and what there is between the lanes of a warp.
#pragma once

namespace fa::kernels {

constexpr float infinity = __builtin_huge_valf();
constexpr float log2_e = 1.44269504088896341f, ln_2 = 0.693147181f;

__device__ inline float nan_value() {
  return __int_as_float(0x7fffffff);
}

__device__ inline bool is_finite(float x) {
  return fabsf(x) < infinity;
}

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

template <int Lanes>
__device__ inline float sum_over_lanes(float x) {
  return over_lanes<Lanes>(x, [](float a, float b) { return a + b; });
}

}  // namespace fa::kernels
