// Operations on two f32 at once, each as a single one of its kind: from SM 100 on one instruction.
#pragma once

#include "common/exp2.h"
#include "common/unroll.cuh"

namespace fa::kernels {

#define FA_PACKED(name, operation)                                                      \
  __device__ __forceinline__ float2 name(float2 a, float2 b) {                          \
    float2 d;                                                                           \
    asm("{\n.reg .b64 a, b, d;\nmov.b64 a, {%2, %3};\nmov.b64 b, {%4, %5};\n" operation \
        " d, a, b;\n"                                                                   \
        "mov.b64 {%0, %1}, d;\n}"                                                       \
        : "=f"(d.x), "=f"(d.y)                                                          \
        : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));                                      \
    return d;                                                                           \
  }

FA_PACKED(add_rn_f32x2, "add.rn.f32x2")
FA_PACKED(mul_rn_f32x2, "mul.rn.f32x2")

#undef FA_PACKED

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

/// 2^x of two numbers up to 127 without the unit for it, as exact as Exp2<Degree>; 0 below -127, NaN of NaN.
template <int Degree>
__device__ __forceinline__ float2 exp2_polynomial(float2 x) {
  x = {max_nan_f32(x.x, -127), max_nan_f32(x.y, -127)};
  const float2 rounded = add_rn_f32x2(x, {rounder, rounder});
  const float2 whole = add_rn_f32x2(rounded, {-rounder, -rounder});
  const float2 f = fma_rn_f32x2(whole, {-1, -1}, x);
  const float last = Exp2<Degree>::coefficient(Degree);
  float2 p = {last, last};
  unroll<Degree - 1>([&](int i) {
    const float c = Exp2<Degree>::coefficient(Degree - 1 - i);
    p = fma_rn_f32x2(p, f, {c, c});
  });
  p = fma_rn_f32x2(p, f, {1, 1});
  const auto power = [](float x) { return __uint_as_float(__float_as_uint(x) << 23); };
  return mul_rn_f32x2(p, {power(rounded.x), power(rounded.y)});
}

}  // namespace fa::kernels
