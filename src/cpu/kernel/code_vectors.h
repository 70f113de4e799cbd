// Numbers as codes, a vector at a time, in the compilers' own vector types: integer steps read as in plain C++, and the
// bits are the same on each ISA.
#pragma once

#include <utility>

#include "cpu/codes.h"
#include "cpu/kernel/convert.h"

namespace fa::cpu::FA_ISA {
namespace {

typedef float Floats __attribute__((vector_size(4 * width)));
typedef int32_t Ints __attribute__((vector_size(4 * width)));

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
template <int first, int step, size_t... i>
inline Ints lanes_of(Ints a, Ints b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (first + step * static_cast<int>(i)) % (2 * width)...);
}
using LaneNumbers = std::make_index_sequence<width>;

/// f of all lanes: f(f(a, b), c) and the like, in any order.
template <int distance = width / 2, class F>
inline int32_t across(Ints a, F f) {
  a = f(a, lanes_of<distance, 1>(a, a, LaneNumbers()));
  if constexpr (distance > 1) {
    return across<distance / 2>(a, f);
  } else {
    return a[0];
  }
}

/// f(... f(f(start, key(bits of x[0])), ...) over n numbers, in any order.
template <class Key, class F>
inline int32_t fold(const float *x, int64_t n, int32_t start, Key key, F f) {
  Ints folded = start + Ints{};
  int64_t i = 0;
  for (; i + width <= n; i += width) folded = f(folded, key(bits_of(load_floats(x + i))));
  for (; i < n; i++) folded = f(folded, key(bits_of(all(x[i]))));
  return across(folded, f);
}

/// The bits of max |x|, which order numbers: those of infinity and NaN come last.
inline uint32_t largest_magnitude(const float *x, int64_t n) {
  const auto magnitude = [](Ints bits) { return bits & static_cast<int32_t>(magnitude_bits); };
  return static_cast<uint32_t>(fold(x, n, 0, magnitude, larger_of));
}

/// min x and max x of numbers that are not NaN, by integers in the same order.
inline void range_of(const float *x, int64_t n, float *low, float *high) {
  const auto turned = [](auto bits) { return bits ^ ((bits >> 31) & static_cast<int32_t>(magnitude_bits)); };
  *low = bits_to_float(static_cast<uint32_t>(turned(fold(x, n, INT32_MAX, turned, smaller_of))));
  *high = bits_to_float(static_cast<uint32_t>(turned(fold(x, n, INT32_MIN, turned, larger_of))));
}

/// Integers from low to high. NaN becomes 0. Of the lanes the low byte counts.
inline Ints nearest_integers(Floats code, float low, float high) {
  const Floats sum = clamped(code, low, high) + 0x1.8p23F;  // whose bits end with the integer
  return sum == sum ? bits_of(sum) : Ints{};
}

/// Numbers of `fraction` bits, whose exponents are `less` smaller than f32's, up to the largest one. Below the normal
/// ones, of which the smallest is given, a sum with `unit` has the bits that are kept.
template <int fraction, int less>
inline Ints nearest_floats(Floats code, float largest, float smallest_normal, float unit) {
  constexpr int dropped = 23 - fraction;
  const Ints bits = bits_of(code), magnitude = bits & static_cast<int32_t>(magnitude_bits);
  const Ints kept = smaller_of(magnitude, all_ints(float_to_bits(largest)));
  const Ints normal = ((kept + (1 << (dropped - 1)) - 1 + ((kept >> dropped) & 1)) >> dropped) - (less << fraction);
  const Ints subnormal = bits_of(numbers_of(kept) + unit) - static_cast<int32_t>(float_to_bits(unit));
  const Ints finite = kept < static_cast<int32_t>(float_to_bits(smallest_normal)) ? subnormal : normal;
  const Ints number = ((bits >> 24) & 0x80) | finite;
  return magnitude > static_cast<int32_t>(infinity_bits) ? all_ints(0x7f) : number;
}

template <class Type>
inline Ints nearest_codes(Type, Floats code) {
  return nearest_integers(code, Type::first_code, Type::last_code);
}
inline Ints nearest_codes(Element<FA_E4M3>, Floats code) {
  return nearest_floats<3, 120>(code, 448, 0x1p-6F, 0x1p14F);
}
inline Ints nearest_codes(Element<FA_E5M2>, Floats code) {
  return nearest_floats<2, 112>(code, 57344, 0x1p-14F, 0x1p7F);
}

/// The first number of the largest magnitude of a block of finite ones, 0 of zeros; else one that is not finite.
inline float largest_of_block(const float *x) {
  const auto positive = [](Ints bits) { return bits & ~(bits >> 31); };
  const auto negative = [](Ints bits) { return bits & (bits >> 31) & static_cast<int32_t>(magnitude_bits); };
  const int32_t above = fold(x, block_elements, 0, positive, larger_of);
  const int32_t below = fold(x, block_elements, 0, negative, larger_of);
  if (above == below && above != 0) {  // of both signs
    while (static_cast<int32_t>(float_to_bits(*x) & magnitude_bits) != above) x++;
    return *x;
  }
  const int32_t sign = below > above ? INT32_MIN : 0;
  return bits_to_float(static_cast<uint32_t>(larger(above, below) | sign));
}

/// A number of a block whose scale it is, in units of `per_scale`; where one is not finite, it is not either.
inline float number_of_scale(Element<FA_Q8_0>, const float *x) {
  return bits_to_float(largest_magnitude(x, block_elements));
}
inline float number_of_scale(Element<FA_Q4_0>, const float *x) {
  return largest_of_block(x);
}
constexpr float per_scale(Element<FA_Q8_0>) {
  return 127;
}
constexpr float per_scale(Element<FA_Q4_0>) {
  return -8;
}

/// Codes of numbers in scales; halves are rounded away from 0, or up. No sum is contracted with the product that a
/// number is: the choice and the magnitude lie between them.
inline Ints codes_in_block(Element<FA_Q8_0>, Floats x) {
  const Ints bits = bits_of(zero_for_nan(x)), sign = bits >> 31;
  const Floats magnitude = clamped(numbers_of(bits & static_cast<int32_t>(magnitude_bits)), 0, 127);
  const Ints whole = __builtin_convertvector(magnitude, Ints);
  const Ints code = whole - (magnitude - __builtin_convertvector(whole, Floats) >= 0.5F);
  return (code ^ sign) - sign;
}
inline Ints codes_in_block(Element<FA_Q4_0>, Floats x) {
  return __builtin_convertvector(clamped(zero_for_nan(x) + 8.5F, 0, 15), Ints);
}

template <class CodesFrom>
inline void store_block(Element<FA_Q8_0>, uint8_t *to, CodesFrom codes_from) {
  for (int i = 0; i < block_elements; i += width) store_low_bytes(to + i, codes_from(i));
}
template <class CodesFrom>
inline void store_block(Element<FA_Q4_0>, uint8_t *to, CodesFrom codes_from) {
  constexpr int half = block_elements / 2;
  for (int i = 0; i < half; i += width) store_low_bytes(to + i, codes_from(i) | codes_from(half + i) << 4);
}

/// A row of blocks with the bits that ggml gives them: scales are not rounded before codes are computed with them. Of
/// all blocks they are computed together.
template <class Type>
inline void make_blocks(Type type, uint8_t *to, const float *x, int64_t n) {
  constexpr int64_t most_blocks = FA_MAX_HEAD_DIM / block_elements + width;
  alignas(64) float number[most_blocks], inverse[most_blocks];
  uint16_t scale_bits[most_blocks];
  const int64_t blocks = n / block_elements;
  for (int64_t i = 0; i < blocks; i++) number[i] = number_of_scale(type, x + i * block_elements);
  for (int64_t i = blocks; i % width != 0; i++) number[i] = 0;
  for (int64_t i = 0; i < blocks; i += width) {
    const Floats largest = load_floats(number + i), scale = largest / per_scale(type);  // 0 becomes -0 for q4_0
    const Ints magnitude = bits_of(largest) & static_cast<int32_t>(magnitude_bits);
    const auto finite = magnitude < static_cast<int32_t>(infinity_bits);
    Simd::store_f16(scale_bits + i, as_vec(finite ? scale : all(bits_to_float(0x7fc00000))));
    Simd::store(inverse + i, as_vec((finite & (scale != 0)) != 0 ? 1 / scale : Floats{}));
  }
  for (int64_t b = 0; b < blocks; b++, to += dtype_bytes(Type::dtype), x += block_elements) {
    __builtin_memcpy(to, scale_bits + b, sizeof scale_bits[b]);
    store_block(type, to + 2, [&](int i) { return codes_in_block(type, load_floats(x + i) * inverse[b]); });
  }
}

/// Numbers divided by the scales from element i on, with the zeros there added.
struct EachFactor {
  const float *scale, *zero;

  Floats operator()(Floats x, int64_t i) const { return x / load_floats(scale + i) + load_floats(zero + i); }
};

/// The same with one scale and one zero.
struct OneFactor {
  Floats scale, zero;

  OneFactor(float s, float z) : scale(all(s)), zero(all(z)) {}
  Floats operator()(Floats x, int64_t) const { return x / scale + zero; }
};

/// n numbers as codes, in whole vectors. Of packed types, whose rows then consist of pairs of vectors, two codes a byte
/// if asked.
template <class Type, class Factor>
inline void make_codes(Type type, uint8_t *to, const float *x, int64_t n, bool packed, const Factor &factor) {
  const auto codes = [&](int64_t i) { return nearest_codes(type, factor(load_floats(x + i), i)); };
  if constexpr (is_packed(Type::dtype)) {
    if (packed) {
      for (int64_t i = 0; i < n; i += 2 * width) {
        const Ints a = codes(i), b = codes(i + width);
        const Ints low = lanes_of<0, 2>(a, b, LaneNumbers()), high = lanes_of<1, 2>(a, b, LaneNumbers());
        store_low_bytes(to + i / 2, (low & 15) | high << 4);
      }
      return;
    }
  }
  for (int64_t i = 0; i < n; i += width) store_low_bytes(to + i, codes(i));
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
