// Constants, and tests for NaN and infinity.
#pragma once

namespace fa::kernels {

constexpr float infinity = __builtin_bit_cast(float, 0x7f800000);
constexpr float log2_e = 1.44269504088896341f, ln_2 = 0.693147181f;

__device__ inline float nan_value() {
  return __int_as_float(0x7fffffff);
}

__device__ inline bool is_finite(float x) {
  return fabsf(x) < infinity;
}

}  // namespace fa::kernels
