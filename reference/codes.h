// The quantised formats of the library as doubles and back, by their definitions: the number of a code, and the nearest
// code to a number. The reference's own, as number.h is.
#pragma once

#include <fa.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "reference/number.h"

namespace reference {

/// A line of src/core/codes.inc.
struct CodesLine {
  const char *name;
  int64_t elements, bytes;  // of a unit
  bool floating, block;
};

/// nullptr for a type that is not quantised.
inline const CodesLine *codes_of(fa_dtype dtype) {
  enum Kind { integer, floating, block };
#define FA_CODES(dtype_, number, name, kind, elements, bytes)                                \
  if (dtype == number) {                                                                     \
    static const CodesLine line = {#name, elements, bytes, kind == floating, kind == block}; \
    return &line;                                                                            \
  }
#include "src/core/codes.inc"
#undef FA_CODES
  return nullptr;
}

/// Elements that a unit of any type has.
inline int64_t unit_elements(fa_dtype dtype) {
  const CodesLine *line = codes_of(dtype);
  return line ? line->elements : 1;
}

/// Bytes of n elements of any type.
inline int64_t row_bytes(fa_dtype dtype, int64_t n) {
  const CodesLine *line = codes_of(dtype);
  return line ? n / line->elements * line->bytes : n * dtype_bytes(dtype);
}

/// The number that a byte is: a sign, exponent bits, fraction bits, with subnormal numbers. Special values differ.
inline double small_float(uint8_t byte, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, ones = 1 << fraction_bits;
  const int exponent = (byte & 0x7f) >> fraction_bits, fraction = byte & (ones - 1);
  const double size = exponent == 0 ? std::ldexp(double(fraction) / ones, 1 - bias)
                                    : std::ldexp(1 + double(fraction) / ones, exponent - bias);
  return byte & 0x80 ? -size : size;
}

/// float8_e4m3fn: no infinity, and NaN where all bits but the sign are set.
inline double e4m3(uint8_t byte) {
  return (byte & 0x7f) == 0x7f ? NAN : small_float(byte, 4, 3);
}

/// float8_e5m2: special as IEEE 754 has it.
inline double e5m2(uint8_t byte) {
  if ((byte & 0x7f) < 0x7c) return small_float(byte, 5, 2);
  return (byte & 3) != 0 ? NAN : byte & 0x80 ? -INFINITY : INFINITY;
}

/// The nearest finite code, ties to even, of a format with finite codes 0 .. last of either sign.
template <class Decode>
uint8_t nearest_float(double x, uint8_t last, Decode decode) {
  if (std::isnan(x)) return 0x7f;
  const double size = std::abs(x);
  uint8_t code = 0;  // the largest one that is not above it
  for (int step = 64; step > 0; step /= 2)
    if (code + step <= last && decode(uint8_t(code + step)) <= size) code = uint8_t(code + step);
  if (code < last) {
    const double below = size - decode(code), above = decode(uint8_t(code + 1)) - size;
    if (above < below || (above == below && code % 2 != 0)) ++code;
  }
  return std::signbit(x) ? uint8_t(code | 0x80) : code;
}

/// The nearest integer, ties to even, of those from low to high; 0 for NaN.
inline int nearest_integer(double x, int low, int high) {
  return std::isnan(x) ? 0 : int(std::nearbyint(std::clamp(x, double(low), double(high))));
}

/// Element d of a row: its code, or its number where it is in a block.
inline double load_code(const void *row, fa_dtype dtype, int64_t d) {
  const auto *bytes = static_cast<const uint8_t *>(row);
  const auto half_of = [](uint8_t byte, bool high) { return int(high ? byte >> 4 : byte & 15); };
  const uint8_t *block = bytes + row_bytes(dtype, d / 32 * 32);
  const auto block_scale = [&] {
    const double scale = load(block, FA_F16);
    return std::isfinite(scale) ? scale : NAN;
  };
  switch (dtype) {
    case FA_I8:
      return int8_t(bytes[d]);
    case FA_E4M3:
      return e4m3(bytes[d]);
    case FA_E5M2:
      return e5m2(bytes[d]);
    case FA_I4: {
      const int code = half_of(bytes[d / 2], d % 2);
      return code < 8 ? code : code - 16;
    }
    case FA_U4:
      return half_of(bytes[d / 2], d % 2);
    case FA_Q8_0:
      return block_scale() * int8_t(block[2 + d % 32]);
    case FA_Q4_0:
      return block_scale() * (half_of(block[2 + d % 16], d % 32 >= 16) - 8);
    default:
      return NAN;
  }
}

/// A code as large as numbers are quantised to, and that of 0.
inline double largest_code(fa_dtype dtype) {
  if (codes_of(dtype)->floating) return 16;
  return dtype == FA_I8 ? 127 : 7;
}
inline double middle_code(fa_dtype dtype) {
  return dtype == FA_U4 ? 8 : 0;
}

/// Stores the code nearest to x, which saturates, as element d of a row. Not of blocks.
inline void store_code(void *row, fa_dtype dtype, int64_t d, double x) {
  auto *bytes = static_cast<uint8_t *>(row);
  const auto set_half = [&](int code) {
    uint8_t &byte = bytes[d / 2];
    byte = uint8_t(d % 2 ? (byte & 0x0f) | (code & 15) << 4 : (byte & 0xf0) | (code & 15));
  };
  if (dtype == FA_I8) bytes[d] = uint8_t(nearest_integer(x, -127, 127));
  if (dtype == FA_E4M3) bytes[d] = nearest_float(x, 0x7e, e4m3);
  if (dtype == FA_E5M2) bytes[d] = nearest_float(x, 0x7b, e5m2);
  if (dtype == FA_I4) set_half(nearest_integer(x, -7, 7));
  if (dtype == FA_U4) set_half(nearest_integer(x, 0, 15));
}

/// Stores a block of 32 elements nearest to x, with the scale that the largest of them needs.
inline void store_block(void *to, fa_dtype dtype, const double *x) {
  auto *block = static_cast<uint8_t *>(to);
  double largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[i]));
  store(block, FA_F16, largest / (dtype == FA_Q8_0 ? 127 : 7));
  const double scale = load(block, FA_F16);
  const auto code = [&](int i, int low, int high) { return nearest_integer(scale == 0 ? 0 : x[i] / scale, low, high); };
  for (int i = 0; i < 32 && dtype == FA_Q8_0; ++i) block[2 + i] = uint8_t(code(i, -127, 127));
  for (int i = 0; i < 16 && dtype == FA_Q4_0; ++i)
    block[2 + i] = uint8_t((code(i, -8, 7) + 8) | (code(i + 16, -8, 7) + 8) << 4);
}

}  // namespace reference
