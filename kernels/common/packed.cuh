// Operations on two f32 at once, each as a single one of its kind: from SM 100 on one instruction.
#pragma once

#include "common/exp2.h"
#include "common/unroll.cuh"

namespace fa::kernels {

__device__ __forceinline__ float2 add_rn_f32x2(float2 a, float2 b) {
  float2 d;
  asm("{\n.reg .b64 a, b, d;\nmov.b64 a, {%2, %3};\nmov.b64 b, {%4, %5};\n"
      "add.rn.f32x2 d, a, b;\nmov.b64 {%0, %1}, d;\n}"
      : "=f"(d.x), "=f"(d.y)
      : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));
  return d;
}

__device__ __forceinline__ float2 mul_rn_f32x2(float2 a, float2 b) {
  float2 d;
  asm("{\n.reg .b64 a, b, d;\nmov.b64 a, {%2, %3};\nmov.b64 b, {%4, %5};\n"
      "mul.rn.f32x2 d, a, b;\nmov.b64 {%0, %1}, d;\n}"
      : "=f"(d.x), "=f"(d.y)
      : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));
  return d;
}

/// a b + c.
__device__ __forceinline__ float2 fma_rn_f32x2(float2 a, float2 b, float2 c) {
  float2 d;
  asm("{\n.reg .b64 a, b, c, d;\nmov.b64 a, {%2, %3};\nmov.b64 b, {%4, %5};\nmov.b64 c, {%6, %7};\n"
      "fma.rn.f32x2 d, a, b, c;\nmov.b64 {%0, %1}, d;\n}"
      : "=f"(d.x), "=f"(d.y)
      : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y), "f"(c.x), "f"(c.y));
  return d;
}

/// The larger one, NaN if one is NaN.
__device__ __forceinline__ float max_nan_f32(float a, float b) {
  float d;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}

/// a b + c, not below 0 and not above 1; 0 for NaN.
__device__ __forceinline__ float fma_rn_sat_f32(float a, float b, float c) {
  float d;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}

/// 2^x of two numbers without the unit for it, given as (x + 127) / 256 from 0 to 1: as exact as Exp2<Degree> from
/// x = -126 on, exactly 0 at -127, and below 2^-126 in between. The factor 256 is in the coefficients, as powers of
/// two.
template <int Degree>
__device__ __forceinline__ float2 exp2_polynomial(float2 y) {
  const float2 rounded = add_rn_f32x2(y, {rounder, rounder});
  const float2 whole = add_rn_f32x2(rounded, {-rounder, -rounder});
  const float2 f = fma_rn_f32x2(whole, {-1, -1}, y);
  const auto coefficient = [](int power) {
    float c = Exp2<Degree>::coefficient(power);
    for (int i = 0; i < power; i++) c *= exponent_range;
    return float2{c, c};
  };
  float2 p = coefficient(Degree);
  unroll<Degree - 1>([&](int i) { p = fma_rn_f32x2(p, f, coefficient(Degree - 1 - i)); });
  p = fma_rn_f32x2(p, f, {1, 1});
  const auto times_power = [](float p, float rounded) {
    return __uint_as_float(__float_as_uint(p) + (__float_as_uint(rounded) << 23));
  };
  return {times_power(p.x, rounded.x), times_power(p.y, rounded.y)};
}

}  // namespace fa::kernels
