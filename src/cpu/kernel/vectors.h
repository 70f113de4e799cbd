// Vectors as the compilers' own vector types: integer steps read as in plain C++, and each ISA has the same bits.
#pragma once

#include <utility>

#include "cpu/kernel/convert.h"

namespace fa::cpu::FA_ISA {
namespace {

typedef float Floats __attribute__((vector_size(4 * width)));
typedef int32_t Ints __attribute__((vector_size(4 * width)));
typedef uint32_t Unsigned __attribute__((vector_size(4 * width)));
typedef int16_t Words __attribute__((vector_size(4 * width)));
typedef int8_t Bytes __attribute__((vector_size(4 * width)));

constexpr uint32_t magnitude_bits = 0x7fffffff, infinity_bits = 0x7f800000;

inline Floats load_floats(const float *p) {
  Floats x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
inline Ints bits_of(Floats x) {
  return reinterpret_cast<Ints>(x);
}
inline Floats numbers_of(Ints bits) {
  return reinterpret_cast<Floats>(bits);
}
inline Vec as_vec(Floats x) {
  return reinterpret_cast<Vec>(x);
}
inline Floats as_floats(Vec x) {
  return reinterpret_cast<Floats>(x);
}
inline Floats all(float x) {
  return x - Floats{};
}
inline Ints all_ints(uint32_t x) {
  return static_cast<int32_t>(x) + Ints{};
}
inline Ints smaller_of(Ints a, Ints b) {
  return a < b ? a : b;
}
inline Ints larger_of(Ints a, Ints b) {
  return a > b ? a : b;
}
/// NaN stays NaN.
inline Floats clamped(Floats x, float low, float high) {
  return as_floats(Simd::min(Simd::set1(high), Simd::max(Simd::set1(low), as_vec(x))));
}
inline Floats zero_for_nan(Floats x) {
  return x == x ? x : Floats{};
}

/// The low byte of each lane.
inline void store_low_bytes(uint8_t *to, Ints x) {
  Simd::store_bytes(to, as_vec(numbers_of(x)));
}

/// Lanes first, first + step, ... of two vectors.
template <int first, int step, class V, size_t... i>
inline V lanes_of(V a, V b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (first + step * static_cast<int>(i)) % (2 * width)...);
}
/// Lanes first, first + 1, ... of each of two vectors, alternately.
template <int first, class V, size_t... i>
inline V alternate_lanes(V a, V b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (first + static_cast<int>(i / 2) + static_cast<int>(i % 2) * width)...);
}
using LaneNumbers = std::make_index_sequence<width>;

}  // namespace
}  // namespace fa::cpu::FA_ISA
