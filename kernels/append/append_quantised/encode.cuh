// Numbers as codes, one at a time: integers, small floats, and those of blocks.
#pragma once

#include "common/quantised_params.h"

namespace fa::kernels::append_quantised {

/// The nearest integer from Low to High, ties to even; 0 for NaN.
template <int Low, int High>
struct Integers {
  static constexpr int bits = High - Low < 16 ? 4 : 8;

  __device__ static uint32_t code(float x) {
    return uint32_t(min(max(__float2int_rn(x), Low), High)) & ((1u << bits) - 1);
  }
};

/// The nearest number of so few bits of fraction, ties to even, whose exponents are `Less` smaller than f32's. Largest:
/// the bits of the largest one in f32.
template <int Fraction, int Less, uint32_t Largest>
struct SmallFloats {
  static constexpr int bits = 8;

  __device__ static uint32_t code(float x) {
    constexpr int dropped = 23 - Fraction;
    constexpr uint32_t unit = uint32_t(Less + 24 - Fraction)
                              << 23;  // a sum with it keeps the bits of a subnormal number
    const uint32_t all = __float_as_uint(x), magnitude = all & 0x7fffffff, kept = min(magnitude, Largest);
    const uint32_t normal =
        ((kept + (1u << (dropped - 1)) - 1 + (kept >> dropped & 1)) >> dropped) - (Less << Fraction);
    const uint32_t subnormal = __float_as_uint(__uint_as_float(kept) + __uint_as_float(unit)) - unit;
    const uint32_t finite = kept < uint32_t(Less + 1) << 23 ? subnormal : normal;
    return magnitude > 0x7f800000 ? 0x7f : (all >> 24 & 0x80) | finite;
  }
};

/// f of the codes of a type that is no block's.
template <class F>
__device__ __forceinline__ void with_codes(int32_t dtype, F f) {
  switch (dtype) {
    case i8:
      return f(Integers<-128, 127>());
    case i4:
      return f(Integers<-8, 7>());
    case u4:
      return f(Integers<0, 15>());
    case e4m3:
      return f(SmallFloats<3, 120, 0x43e00000>());
    default:
      return f(SmallFloats<2, 112, 0x47600000>());
  }
}

/// Codes of a q8_0 block: x / scale to the nearest integer, halves away from 0.
struct BytesOfBlock {
  static constexpr float per_scale = 127;

  __device__ static uint32_t code(float x) {
    const float magnitude = fminf(fabsf(x), 127);
    const int whole = __float2int_rz(magnitude), code = whole + (magnitude - float(whole) >= 0.5f);
    return uint32_t(x < 0 ? -code : code) & 0xff;
  }
};

/// Codes of a q4_0 block: halves are rounded upwards, and the code of 0 is 8.
struct HalfBytesOfBlock {
  static constexpr float per_scale = -8;

  __device__ static uint32_t code(float x) { return uint32_t(__float2int_rz(fminf(fmaxf(__fadd_rn(x, 8.5f), 0), 15))); }
};

}  // namespace fa::kernels::append_quantised
