// The range of bf16 operands, which ends a little before that of f32: finite numbers must stay finite. Tiles of numbers
// in the usual range need no check of their products, unless weights exceed those of any softmax.
#pragma once

#include "cpu/element.h"
#include "cpu/kernel/vector_math.h"

namespace fa::cpu::FA_ISA {
namespace {

constexpr bool rounds_operands = Simd::pack == 2;

/// Where nothing reaches 2^48 and weights stay below 2^20, their products, of 576 elements at most, are below 2^127.
constexpr uint32_t range_limit_bits = rounds_operands ? (127u + 48) << 23 : 0x7f800000u;
constexpr float max_safe_power = 20;

/// True when some number is NaN, infinite or, where operands are rounded, 2^48 or larger.
inline bool any_out_of_range(const float *x, int64_t n) {
  uint32_t any = 0;  // its sign bit is set by any number out of range
  for (int64_t i = 0; i < n; i++) any |= (float_to_bits(x[i]) & 0x7fffffff) + (0x80000000u - range_limit_bits);
  return any >> 31 != 0;
}

/// The same of bf16.
inline bool any_out_of_range(const uint16_t *x, int64_t n) {
  uint32_t any = 0;
  for (int64_t i = 0; i < n; i++) any |= (x[i] & 0x7fffu) + (0x8000u - (range_limit_bits >> 16));
  return any >> 15 != 0;
}

/// Whether no weight, of which these are the largest powers of two, is above 2^20.
inline bool all_in_range(Vec powers) {
  alignas(64) float found[width];
  Simd::store(found, powers);
  float largest = found[0];
  for (int i = 1; i < width; i++) largest = larger(largest, found[i]);
  return largest <= max_safe_power;
}

/// Finite numbers that bf16 would round to infinity become its largest one.
inline Vec within_bf16(Vec x) {
  const Vec largest_bf16 = Simd::set1(0x1.fep127f), smallest_bf16 = Simd::set1(-0x1.fep127f);
  const auto finite = Simd::equal(Simd::sub(x, x), Simd::zero());
  return Simd::select(finite, Simd::max(smallest_bf16, Simd::min(largest_bf16, x)), x);
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
