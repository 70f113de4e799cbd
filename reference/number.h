// The element types of the library as doubles and back: what a tensor's bytes mean, written bit by bit.
#pragma once

#include <fa.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace reference {

inline int64_t dtype_bytes(fa_dtype dtype) {
  return dtype == FA_F16 || dtype == FA_BF16 ? 2 : dtype == FA_BOOL ? 1 : 4;
}

/// Half the distance from 1 to the next number: the relative error of one rounding to dtype.
inline double unit_roundoff(fa_dtype dtype) {
  return dtype == FA_BF16 ? 0x1p-8 : dtype == FA_F16 ? 0x1p-11 : 0x1p-24;
}

/// The distance between the subnormal numbers of dtype.
inline double smallest(fa_dtype dtype) {
  return dtype == FA_BF16 ? 0x1p-133 : dtype == FA_F16 ? 0x1p-24 : 0x1p-149;
}

/// The least of the normal numbers of dtype.
inline double smallest_normal(fa_dtype dtype) {
  return dtype == FA_F16 ? 0x1p-14 : 0x1p-126;
}

inline uint32_t float_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float float_from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline float bf16_to_float(uint16_t bits) {
  return float_from_bits(uint32_t(bits) << 16);
}

/// Nearest, ties to even.
inline uint16_t bf16_from_float(float x) {
  const uint32_t bits = float_bits(x);
  if (std::isnan(x)) return uint16_t((bits >> 16) | 0x40);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float f16_to_float(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const uint32_t fraction = bits & 0x3ff;
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  if (exponent == 31) return float_from_bits(sign | 0x7f800000 | (fraction << 13));
  if (exponent != 0) return float_from_bits(sign | uint32_t(exponent + 112) << 23 | (fraction << 13));
  const float magnitude = float(fraction) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

/// Nearest, ties to even; subnormal numbers kept.
inline uint16_t f16_from_float(float x) {
  const uint32_t bits = float_bits(x);
  const uint16_t sign = uint16_t((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 and above round to infinity
  if (magnitude < 0x38800000) {                                 // below 2^-14: a multiple of 2^-24
    const float steps = float_from_bits(magnitude) * 0x1p24f;
    return uint16_t(sign | uint16_t(std::nearbyint(steps)));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return uint16_t(sign | ((rounded - 0x38000000) >> 13));
}

/// The largest finite number of dtype.
inline double largest(fa_dtype dtype) {
  return dtype == FA_BF16 ? 0x1.fep127 : dtype == FA_F16 ? 65504 : 0x1.fffffep127;
}

/// x in the precision of dtype.
inline float round_to(fa_dtype dtype, float x) {
  if (dtype == FA_BF16) return bf16_to_float(bf16_from_float(x));
  if (dtype == FA_F16) return f16_to_float(f16_from_float(x));
  return x;
}

/// The same of an operand: a finite number stays finite.
inline float operand_of(fa_dtype dtype, float x) {
  const float most = float(largest(dtype));
  return std::isfinite(x) ? std::fmin(std::fmax(round_to(dtype, x), -most), most) : x;
}

/// The number at p.
inline double load(const void *p, fa_dtype dtype) {
  if (dtype == FA_BOOL) return *static_cast<const uint8_t *>(p);
  if (dtype == FA_F16 || dtype == FA_BF16) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return dtype == FA_F16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  uint32_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return dtype == FA_I32 ? double(int32_t(bits)) : double(float_from_bits(bits));
}

/// Writes x, rounded to dtype, at p.
inline void store(void *p, fa_dtype dtype, double x) {
  if (dtype == FA_BOOL) {
    *static_cast<uint8_t *>(p) = uint8_t(x);
  } else if (dtype == FA_F16 || dtype == FA_BF16) {
    const uint16_t bits = dtype == FA_F16 ? f16_from_float(float(x)) : bf16_from_float(float(x));
    std::memcpy(p, &bits, sizeof bits);
  } else if (dtype == FA_I32) {
    const int32_t value = int32_t(x);
    std::memcpy(p, &value, sizeof value);
  } else {
    const float value = float(x);
    std::memcpy(p, &value, sizeof value);
  }
}

}  // namespace reference
