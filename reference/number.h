// The element types of the library as doubles and back: a tensor's bytes, bit by bit. Conversions are
// the reference's own, by formulas of a format's two widths: with those of the library (src/cpu/element.h), one by one
// and by other means, it would have their faults.
#pragma once

#include <fa.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace reference {

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

constexpr double power_of_two(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

/// Numbers as IEEE 754 has them: a sign, an exponent and a fraction, with subnormal numbers, infinities and NaN.
template <class Storage, int exponent_bits, int fraction_bits>
struct Format {
  using Bits = Storage;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int dropped = 23 - fraction_bits;  // bits of f32's fraction
  static constexpr bool f32_exponents = exponent_bits == 8;

  /// Half the distance from 1 to the next number: the relative error of one rounding.
  static constexpr double unit_roundoff = power_of_two(-fraction_bits - 1);
  static constexpr double smallest_normal = power_of_two(1 - bias);
  /// The distance between subnormal numbers.
  static constexpr double smallest = power_of_two(1 - bias - fraction_bits);
  static constexpr double largest = (2 - 2 * unit_roundoff) * power_of_two(bias);

  static float to_float(Bits bits) {
    constexpr uint32_t all = (1u << exponent_bits) - 1;
    const uint32_t magnitude = bits & ((1u << (exponent_bits + fraction_bits)) - 1);
    const uint32_t exponent = magnitude >> fraction_bits, fraction = magnitude & ((1u << fraction_bits) - 1);
    const uint32_t sign = uint32_t(bits) >> (exponent_bits + fraction_bits) << 31;
    if constexpr (f32_exponents) return float_from_bits(sign | magnitude << dropped);
    if (exponent == all) return float_from_bits(sign | 0x7f800000 | fraction << dropped);
    if (exponent != 0) return float_from_bits(sign | ((exponent + 127 - bias) << 23) | fraction << dropped);
    const float subnormal = float(fraction) * float(smallest);
    return sign ? -subnormal : subnormal;
  }

  /// Nearest, ties to even; subnormal numbers kept.
  static Bits from_float(float x) {
    if constexpr (dropped == 0) return float_bits(x);
    constexpr uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
    const uint32_t magnitude = float_bits(x) & 0x7fffffff;
    const uint32_t sign = float_bits(x) >> 31 << (exponent_bits + fraction_bits);
    if (magnitude > 0x7f800000)
      return Bits(sign | infinity | 1u << (fraction_bits - 1) | magnitude << 9 >> (9 + dropped));
    if (!f32_exponents && float_from_bits(magnitude) < float(smallest_normal))
      return Bits(sign | uint32_t(std::nearbyint(float_from_bits(magnitude) * float(1 / smallest))));
    const uint32_t rounded = magnitude + (1u << dropped) / 2 - 1 + (magnitude >> dropped & 1);
    return Bits(sign | std::min(infinity, (rounded - (uint32_t(127 - bias) << 23)) >> dropped));
  }
};

/// The formats of elements.inc, by their names.
using F32 = Format<uint32_t, 8, 23>;
using F16 = Format<uint16_t, 5, 10>;
using BF16 = Format<uint16_t, 8, 7>;

/// f(Format()) of the type of q, k, v, out, a bias or a gradient; FA_DTYPE_DEFAULT is f32.
template <class F>
auto with_format(fa_dtype dtype, F f) {
#define FA_FORMAT_compute(name) \
  if (dtype == FA_##name) return f(name());
#define FA_FORMAT_cache FA_FORMAT_compute
#define FA_FORMAT_other(name)
#define FA_ELEMENT(dtype, number, name, use, bits) FA_FORMAT_##use(dtype)
#include "src/core/all_elements.inc"
#undef FA_ELEMENT
#undef FA_FORMAT_compute
#undef FA_FORMAT_cache
#undef FA_FORMAT_other
  return f(F32());
}

inline int64_t dtype_bytes(fa_dtype dtype) {
  if (dtype == FA_BOOL) return 1;
  if (dtype == FA_I32) return 4;
  if (dtype == FA_I64) return 8;
  return with_format(dtype, [](auto format) { return int64_t(sizeof(typename decltype(format)::Bits)); });
}

inline double unit_roundoff(fa_dtype dtype) {
  return with_format(dtype, [](auto format) { return format.unit_roundoff; });
}

/// unit_roundoff of operands, which engines round to dtype before products; 0 of f32.
inline double operand_roundoff(fa_dtype dtype) {
  return with_format(dtype, [](auto format) { return format.dropped == 0 ? 0 : format.unit_roundoff; });
}

/// Dot products of bf16 take operands and sums below 2^-126 for 0 (Intel SDM, VDPBF16PS).
inline bool products_flush(fa_dtype dtype) {
  return dtype == FA_BF16;
}

inline bool has_f32_exponents(fa_dtype dtype) {
  return with_format(dtype, [](auto format) { return format.f32_exponents; });
}

inline double smallest(fa_dtype dtype) {
  return with_format(dtype, [](auto format) { return format.smallest; });
}

inline double smallest_normal(fa_dtype dtype) {
  return with_format(dtype, [](auto format) { return format.smallest_normal; });
}

/// The largest finite number of dtype.
inline double largest(fa_dtype dtype) {
  return with_format(dtype, [](auto format) { return format.largest; });
}

/// x in the precision of dtype.
inline float round_to(fa_dtype dtype, float x) {
  return with_format(dtype, [=](auto format) { return format.to_float(format.from_float(x)); });
}

/// x rounded as an operand: a finite number stays finite.
inline float operand_of(fa_dtype dtype, float x) {
  const float most = float(largest(dtype));
  return std::isfinite(x) ? std::fmin(std::fmax(round_to(dtype, x), -most), most) : x;
}

template <class T>
T read(const void *p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

/// The number at p.
inline double load(const void *p, fa_dtype dtype) {
  if (dtype == FA_BOOL) return read<uint8_t>(p);
  if (dtype == FA_I32) return read<int32_t>(p);
  if (dtype == FA_I64) return double(read<int64_t>(p));
  return with_format(dtype,
                     [=](auto format) { return double(format.to_float(read<typename decltype(format)::Bits>(p))); });
}

/// The same of n numbers `apart` bytes from one another, of a type that with_format has.
template <class Real>
void load_each(const char *p, int64_t apart, fa_dtype dtype, int64_t n, Real *to) {
  with_format(dtype, [=](auto format) {
    for (int64_t i = 0; i < n; ++i) to[i] = Real(format.to_float(read<typename decltype(format)::Bits>(p + i * apart)));
  });
}

/// The bits of the element at p, of at most 32.
inline uint32_t bits_at(const char *p, fa_dtype dtype) {
  uint32_t bits = 0;
  std::memcpy(&bits, p, size_t(dtype_bytes(dtype)));
  return bits;
}

template <class T>
void write(void *p, T x) {
  std::memcpy(p, &x, sizeof x);
}

/// Writes x, rounded to dtype, at p.
inline void store(void *p, fa_dtype dtype, double x) {
  if (dtype == FA_BOOL) return write(p, uint8_t(x));
  if (dtype == FA_I32) return write(p, int32_t(x));
  if (dtype == FA_I64) return write(p, int64_t(x));
  with_format(dtype, [=](auto format) { write(p, format.from_float(float(x))); });
}

/// The same of n numbers `apart` bytes from one another, of a type that with_format has.
inline void store_each(char *p, int64_t apart, fa_dtype dtype, int64_t n, const double *x) {
  with_format(dtype, [=](auto format) {
    for (int64_t i = 0; i < n; ++i) write(p + i * apart, format.from_float(float(x[i])));
  });
}

}  // namespace reference
