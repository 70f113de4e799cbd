// Sums of 8-bit floating point products as the tensor cores of SM 89 (mma.sync) and SM 90 (wgmma) form them: the
// products and the accumulator are cut off 13 bits below the greatest of their exponents, then added, and the sum is
// cut to 13 bits of mantissa (SageAttention2, arXiv 2411.10958: 1 bit of sign, 8 of exponent, 13 of mantissa; measured
// bit by bit by MMA-Sim, arXiv 2511.10909). A product's exponent is the sum of its factors' exponents, which subnormal
// numbers have in common with the least normal one. mma.sync adds 16 products at a time, wgmma 32. With f16
// accumulators the sum is rounded to f16 instead of being cut.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "exec/mma_tile.h"

namespace fa::emu::short_sum {

constexpr int kept_bits = 13;
constexpr uint32_t greatest_depth = 32, greatest_columns = 256;

typedef int32_t Int8 __attribute__((vector_size(32)));

/// 2 to the exponent that the hardware sees; 0 for zero. least: 2 to the format's least exponent.
inline float power_of(float value, float least) {
  const float power = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0x7f800000u);
  return value == 0 ? 0 : std::max(power, least);
}

inline bool is_finite(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7f800000u) != 0x7f800000u;
}

/// Eight neighbouring sums of a row. a, b: factors, powers_a, powers_b: power_of them. cuts: to 13 bits.
inline Float8 add_products(Float8 c, const float *a, const float *powers_a, const float *b, const float *powers_b,
                           size_t pitch, uint32_t depth, bool cuts) {
  constexpr Int8 exponent = {0x7f800000, 0x7f800000, 0x7f800000, 0x7f800000,
                             0x7f800000, 0x7f800000, 0x7f800000, 0x7f800000};
  const Int8 bits = reinterpret_cast<Int8>(c);
  const Float8 zero{}, own = reinterpret_cast<Float8>(bits & exponent);
  Float8 greatest = zero;
  for (uint32_t k = 0; k < depth; k++) {
    const Float8 power = load8(powers_b + k * pitch) * powers_a[k];
    greatest = power > greatest ? power : greatest;
  }
  // Where all products are zeros the scale below would overflow: the accumulator alone is cut.
  const Int8 only_c = greatest == zero;
  greatest = own > greatest ? own : greatest;
  greatest = only_c ? zero + 1.0f : greatest;
  const Float8 scale = float{1 << kept_bits} / greatest;
  Int8 sum = __builtin_convertvector(only_c ? zero : c * scale, Int8);
  for (uint32_t k = 0; k < depth; k++) sum += __builtin_convertvector(load8(b + k * pitch) * a[k] * scale, Int8);
  Float8 result = __builtin_convertvector(sum, Float8) * (greatest / float{1 << kept_bits});
  result = only_c ? c : result;
  return cuts ? reinterpret_cast<Float8>(reinterpret_cast<Int8>(result) & ~((1 << (23 - kept_bits)) - 1)) : result;
}

/// As multiply_tile, of at most 32 products a sum; not inlined, so that exact products are compiled as without it.
/// min_a, min_b: 2 to the formats' least exponents.
[[gnu::noinline]] inline void multiply_tile(float *c, size_t c_pitch, const float *a, size_t a_pitch, const float *b,
                                            size_t b_pitch, uint32_t rows, uint32_t columns, uint32_t depth,
                                            bool accumulate, float min_a, float min_b, bool cuts) {
  alignas(64) static thread_local float powers_b[greatest_depth * greatest_columns], exact[4 * greatest_columns];
  bool finite = true;
  for (uint32_t k = 0; k < depth; k++)
    for (uint32_t column = 0; column < columns; column++) {
      powers_b[k * b_pitch + column] = power_of(b[k * b_pitch + column], min_b);
      finite &= is_finite(b[k * b_pitch + column]);
    }
  for (uint32_t row = 0; row < rows; row++) {
    float powers_a[greatest_depth], *sums = c + row * c_pitch;
    const float *factors = a + row * a_pitch;
    if (!accumulate) std::fill_n(sums, columns, 0.0f);
    bool row_finite = finite;
    for (uint32_t k = 0; k < depth; k++) {
      powers_a[k] = power_of(factors[k], min_a);
      row_finite &= is_finite(factors[k]);
    }
    // Infinities and NaN, rare, come from plain sums.
    for (uint32_t column = 0; column < columns; column++) {
      row_finite &= is_finite(sums[column]);
      exact[column] = sums[column];
    }
    if (!row_finite)
      for (uint32_t k = 0; k < depth; k++)
        for (uint32_t column = 0; column < columns; column++) exact[column] += factors[k] * b[k * b_pitch + column];
    for (uint32_t column = 0; column < columns; column += 8)
      store8(sums + column, add_products(load8(sums + column), factors, powers_a, b + column, powers_b + column,
                                         b_pitch, depth, cuts));
    if (!row_finite)
      for (uint32_t column = 0; column < columns; column++)
        if (!is_finite(exact[column])) sums[column] = exact[column];
  }
}

}  // namespace fa::emu::short_sum
