// Numbers as codes, a vector at a time: rounded, divided by their scales, and packed.
#pragma once

#include "cpu/codes.h"
#include "cpu/kernel/vectors.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Integers from low to high. NaN becomes 0. Of the lanes the low byte counts.
inline Ints nearest_integers(Floats code, float low, float high) {
  const Floats sum = clamped(code, low, high) + 0x1.8p23F;  // whose bits end with the integer
  return sum == sum ? bits_of(sum) : Ints{};
}

/// Numbers of `fraction` bits, whose exponents are `less` smaller than f32's, for numbers that round to finite ones: as
/// integers that are their bytes.
template <int fraction, int less>
inline Ints rounded_floats(Floats code) {
  constexpr int dropped = 23 - fraction;
  const Ints bits = bits_of(code), sign = bits >> 31;
  const Ints magnitude = bits & static_cast<int32_t>(magnitude_bits);
  const Ints exponent = larger_of(bits & static_cast<int32_t>(infinity_bits), all_ints((less + 1) << 23));
  // The last bit of the sum is worth as much as that of the code. The exponents of both differ by a multiple of 256,
  // and so the low byte is left of the sum and its exponent.
  constexpr int32_t first = -((less + 1) << fraction) & 255;
  const Unsigned addend = reinterpret_cast<Unsigned>(exponent) + (dropped << 23 | first);  // of NaN any number
  const Ints sum = bits_of(numbers_of(magnitude) + reinterpret_cast<Floats>(addend));
  return (((sum + (exponent >> dropped)) ^ sign) & 0x7f) ^ sign;
}

/// The same for any number, up to the largest one. NaN stays NaN.
template <int fraction, int less>
inline Ints nearest_floats(Floats code, float largest) {
  const Ints magnitude = bits_of(code) & static_cast<int32_t>(magnitude_bits);
  const Ints finite = rounded_floats<fraction, less>(clamped(code, -largest, largest));
  return magnitude > static_cast<int32_t>(infinity_bits) ? all_ints(0x7f) : finite;
}

/// The nearest codes of any numbers, and those of numbers below `rounded_limit`, which the bytes' type saturates.
template <class Type>
inline Ints nearest_codes(Type, Floats code) {
  return nearest_integers(code, Type::first_code, Type::last_code);
}
inline Ints nearest_codes(Element<FA_E4M3>, Floats code) {
  return nearest_floats<3, 120>(code, 448);
}
inline Ints nearest_codes(Element<FA_E5M2>, Floats code) {
  return nearest_floats<2, 112>(code, 57344);
}
template <class Type>
inline Ints rounded_codes(Type, Floats code) {
  return bits_of(as_floats(Simd::nearest(as_vec(code))));
}
inline Ints rounded_codes(Element<FA_E4M3>, Floats code) {
  return rounded_floats<3, 120>(code);
}
inline Ints rounded_codes(Element<FA_E5M2>, Floats code) {
  return rounded_floats<2, 112>(code);
}
template <class Type>
constexpr float rounded_limit(Type) {
  return 0x1p20F;
}
constexpr float rounded_limit(Element<FA_E4M3>) {
  return 463;
}
constexpr float rounded_limit(Element<FA_E5M2>) {
  return 61000;
}

/// x / scale, rounded once (but that -0 may become 0): of numbers whose quotients are finite, and of a scale between
/// 2^-60 and 2^60. Quotients below 2^-40 may differ in their last bit.
struct Quotient {
  Floats scale, inverse, rest;

  explicit Quotient(float s) : scale(all(s)), inverse(all(1 / s)) {
    const Vec missing = Simd::fma(as_vec(-scale), as_vec(inverse), Simd::set1(1));
    rest = as_floats(Simd::mul(missing, as_vec(inverse)));
  }

  Floats operator()(Floats x) const {
    if constexpr (!Simd::fused) return x / scale;
    // With 1 / scale rounded and a quotient that is less than a unit off, its remainder corrects it (Markstein 1990).
    const Vec near = Simd::fma(as_vec(x), as_vec(inverse), Simd::mul(as_vec(x), as_vec(rest)));
    const Vec remainder = Simd::fma(as_vec(-as_floats(near)), as_vec(scale), as_vec(x));
    return as_floats(Simd::fma(remainder, as_vec(inverse), near));
  }
};

/// Stores the codes of four vectors, or half as many bytes of packed types.
template <class Type>
inline void store_codes(Type, uint8_t *to, Ints a, Ints b, Ints c, Ints d) {
  const auto vec = [](Ints x) { return as_vec(numbers_of(x)); };
  const Vec bytes = Simd::pack_bytes(vec(a), vec(b), vec(c), vec(d));
  if constexpr (is_packed(Type::dtype)) {
    const Bytes low = static_cast<int8_t>(Type::first_code) + Bytes{},
                high = static_cast<int8_t>(Type::last_code) + Bytes{};
    Bytes codes = reinterpret_cast<Bytes>(bytes);
    codes = codes < low ? low : codes;
    codes = codes > high ? high : codes;
    const Words pairs = reinterpret_cast<Words>(codes);
    Simd::store_bytes_of_words(to, reinterpret_cast<Vec>((pairs & 15) | ((pairs >> 4) & 0xf0)));
  } else {
    Simd::store(reinterpret_cast<float *>(to), bytes);
  }
}

/// Stores codes(i), the codes of a vector, for n of them, a multiple of 2 * width.
template <class Type, class Codes>
inline void store_codes(Type type, uint8_t *to, int64_t n, const Codes &codes) {
  constexpr int64_t per_byte = is_packed(Type::dtype) ? 2 : 1;
  int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width)
    store_codes(type, to + i / per_byte, codes(i), codes(i + width), codes(i + 2 * width), codes(i + 3 * width));
  if (i == n) return;
  alignas(64) uint8_t both[4 * width];
  store_codes(type, both, codes(i), codes(i + width), Ints{}, Ints{});
  __builtin_memcpy(to + i / per_byte, both, 2 * width / per_byte);
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
