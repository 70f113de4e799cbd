// Numbers as codes, a vector at a time, in the compilers' own vector types: integer steps read as in plain C++, and the
// bits are the same on each ISA.
#pragma once

#include <type_traits>
#include <utility>

#include "cpu/codes.h"
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

/// Numbers where they are stored, in order.
template <fa_dtype from>
struct Numbers {
  static constexpr fa_dtype dtype = from;
  static constexpr int64_t bytes = dtype_bytes(from);
  /// As integers, whose order is that of magnitudes and, turned, that of numbers.
  using Bits = std::conditional_t<bytes == 4, Ints, Words>;
  using BitsOfOne = std::conditional_t<bytes == 4, int32_t, int16_t>;
  static constexpr int64_t together = sizeof(Bits) / sizeof(BitsOfOne);
  static constexpr int sign_at = static_cast<int>(8 * bytes - 1);
  static constexpr BitsOfOne magnitude_of = static_cast<BitsOfOne>(~(1u << sign_at));

  const char *at;

  /// Rows of adjacent heads or tokens follow.
  void prefetch(int64_t n) const {
    constexpr int64_t behind = 4096;
    for (int64_t i = 0; i < n * bytes; i += 64) __builtin_prefetch(at + behind + i);
  }
  Floats operator[](int64_t i) const { return as_floats(load_vector<from>(at + i * bytes)); }
  Numbers operator+(int64_t i) const { return {at + i * bytes}; }
  Bits bits_at(int64_t i) const {
    Bits bits;
    __builtin_memcpy(&bits, at + i * bytes, sizeof bits);
    return bits;
  }

  /// f(... f(f(start, key(bits of vector 0)), ...) over n numbers, whole vectors of Bits, in any order.
  template <class Key, class F>
  Bits fold(int64_t n, Bits folded, Key key, F f) const {
    for (int64_t i = 0; i < n; i += together) folded = f(folded, key(bits_at(i)));
    return folded;
  }
};

/// Four groups, or blocks, are computed at a time: what there is one of for each.
typedef float Four __attribute__((vector_size(16)));
typedef int32_t FourInts __attribute__((vector_size(16)));

template <size_t... i>
inline FourInts first_four(Ints a, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, a, static_cast<int>(i)...);
}
template <size_t... i>
inline Floats repeated_four(Four a, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, a, static_cast<int>(i % 4)...);
}

/// The maxima of four vectors of integers.
template <class Bits>
inline FourInts maxima(Bits a, Bits b, Bits c, Bits d) {
  const auto larger_of_halves = [](Ints x, Ints y) {  // of even and of odd lanes: those of x, then those of y
    const Bits even = reinterpret_cast<Bits>(lanes_of<0, 2>(x, y, LaneNumbers()));
    const Bits odd = reinterpret_cast<Bits>(lanes_of<1, 2>(x, y, LaneNumbers()));
    return reinterpret_cast<Ints>(even > odd ? even : odd);
  };
  const Ints first = larger_of_halves(reinterpret_cast<Ints>(a), reinterpret_cast<Ints>(b));
  const Ints second = larger_of_halves(reinterpret_cast<Ints>(c), reinterpret_cast<Ints>(d));
  Ints all = larger_of_halves(first, second);
  for (int lanes = width; lanes > 4; lanes /= 2) all = larger_of_halves(all, all);
  const FourInts four = first_four(all, std::make_index_sequence<4>());
  if constexpr (sizeof(a[0]) == sizeof(int32_t)) return four;
  const FourInts even = four << 16 >> 16, odd = four >> 16;
  return even > odd ? even : odd;
}

/// Numbers of 0 or more, by their bits.
inline Four numbers_of_bits(Element<FA_F32>, FourInts bits) {
  return reinterpret_cast<Four>(bits);
}
inline Four numbers_of_bits(Element<FA_BF16>, FourInts bits) {
  return reinterpret_cast<Four>(bits << 16);
}
inline Four numbers_of_bits(Element<FA_F16>, FourInts bits) {
  const Four finite = reinterpret_cast<Four>(bits << 13) * 0x1p112F;
  return bits < 0x7c00 ? finite : reinterpret_cast<Four>(bits << 13 | static_cast<int32_t>(infinity_bits));
}

inline FourInts bits_of_four(Four x) {
  return reinterpret_cast<FourInts>(x);
}

/// The numbers of a group that its computed scale follows from.
struct Range {
  uint32_t magnitude;  // the bits of max |x|; those of infinity and NaN come last
  float low, high;     // where it is finite, and asked for
};

/// Of n numbers in f32.
inline Range range_of(const float *x, int64_t n, bool bounds) {
  const auto magnitude = [](Ints bits) { return bits & static_cast<int32_t>(magnitude_bits); };
  Range r = {static_cast<uint32_t>(fold(x, n, 0, magnitude, larger_of)), 0, 0};
  if (!bounds || r.magnitude >= infinity_bits) return r;
  const auto turned = [](auto bits) { return bits ^ ((bits >> 31) & static_cast<int32_t>(magnitude_bits)); };
  r.low = bits_to_float(static_cast<uint32_t>(turned(fold(x, n, INT32_MAX, turned, smaller_of))));
  r.high = bits_to_float(static_cast<uint32_t>(turned(fold(x, n, INT32_MIN, turned, larger_of))));
  return r;
}

/// The same of four groups of n numbers.
template <fa_dtype from>
inline void ranges_of_four(const Numbers<from> *x, int64_t n, bool bounds, Range *range) {
  using Bits = typename Numbers<from>::Bits;
  constexpr auto magnitude_of = Numbers<from>::magnitude_of;
  const auto larger_one = [](Bits a, Bits b) { return a > b ? a : b; };
  const auto each = [&](auto key, Bits start) {
    const auto of = [&](int i) { return x[i].fold(n, start, key, larger_one); };
    return maxima(of(0), of(1), of(2), of(3));
  };
  if (!bounds) {
    const Four largest = numbers_of_bits(Element<from>(), each([](Bits a) { return a & magnitude_of; }, Bits{}));
    for (int i = 0; i < 4; i++) range[i] = {static_cast<uint32_t>(bits_of_four(largest)[i]), 0, 0};
    return;
  }
  // Turned, negative numbers are in their order; all turned around, the smallest is the largest.
  const auto turned = [](auto a, int sign_at) { return a ^ ((a >> sign_at) & magnitude_of); };
  const Bits start = Bits{} + static_cast<typename Numbers<from>::BitsOfOne>(~magnitude_of);
  const FourInts high = each([&](Bits a) { return turned(a, Numbers<from>::sign_at); }, start);
  const FourInts low = ~each([&](Bits a) { return ~turned(a, Numbers<from>::sign_at); }, start);
  const auto number = [](FourInts a) {
    const FourInts negative = a >> 31, magnitude = (a ^ negative) & magnitude_of;
    return bits_of_four(numbers_of_bits(Element<from>(), magnitude)) | (negative & INT32_MIN);
  };
  const FourInts highs = number(high), lows = number(low);
  for (int i = 0; i < 4; i++) {
    const uint32_t above = static_cast<uint32_t>(highs[i]), below = static_cast<uint32_t>(lows[i]);
    range[i] = {larger(above & magnitude_bits, below & magnitude_bits), bits_to_float(below), bits_to_float(above)};
  }
}

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

/// The numbers of four blocks whose scales they are, in units of `per_scale`; where one is not finite, it is not
/// either: the largest magnitude.
template <fa_dtype from>
inline Four numbers_of_scales(Element<FA_Q8_0>, const Numbers<from> &x, const int64_t *at) {
  using Bits = typename Numbers<from>::Bits;
  const auto of = [&](int i) {
    return (x + at[i]).fold(
        block_elements, Bits{}, [](Bits a) { return a & Numbers<from>::magnitude_of; },
        [](Bits a, Bits b) { return a > b ? a : b; });
  };
  return numbers_of_bits(Element<from>(), maxima(of(0), of(1), of(2), of(3)));
}

/// The first number of the largest magnitude.
template <fa_dtype from>
inline Four numbers_of_scales(Element<FA_Q4_0>, const Numbers<from> &x, const int64_t *at) {
  static_assert(block_elements <= 32);
  Ints lane;
  for (int i = 0; i < width; i++) lane[i] = i;
  // As f32, numbers of 16 bits have 13 bits of 0: the first of the same magnitude has the largest one there.
  const auto of = [&](int block) {
    Ints folded = {};
    for (int i = 0; i < block_elements; i += width) {
      const Ints bits = bits_of((x + at[block])[i]);
      const Ints place = (static_cast<int32_t>(block_elements) - 1 - i - lane) << 1 | ((bits >> 31) & 1);
      folded = larger_of(folded, (bits & static_cast<int32_t>(magnitude_bits)) | place);
    }
    return folded;
  };
  if constexpr (Numbers<from>::bytes == 2) {
    const FourInts largest = maxima(of(0), of(1), of(2), of(3));
    return reinterpret_cast<Four>((largest & ~63) | largest << 31);
  } else {
    const auto largest_of = [&](auto key) {
      const auto each = [&](int i) { return (x + at[i]).fold(block_elements, Ints{}, key, larger_of); };
      return maxima(each(0), each(1), each(2), each(3));
    };
    const FourInts above = largest_of([](Ints bits) { return bits & ~(bits >> 31); });
    const FourInts below =
        largest_of([](Ints bits) { return bits & (bits >> 31) & static_cast<int32_t>(magnitude_bits); });
    Four largest = reinterpret_cast<Four>(below > above ? below | INT32_MIN : above);
    for (int i = 0; i < 4; i++) {
      if (above[i] != below[i] || above[i] == 0) continue;  // of one sign
      const char *number = (x + at[i]).at;
      while ((static_cast<int32_t>(float_to_bits(load_element<from>(number)) & magnitude_bits)) != above[i])
        number += Numbers<from>::bytes;
      largest[i] = load_element<from>(number);
    }
    return largest;
  }
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

/// The same of numbers that are those of a block in its scale, or 0: finite, and not much larger than the largest code.
inline Ints rounded_in_block(Element<FA_Q8_0>, Floats x) {
  const Floats bounded = as_floats(Simd::min(Simd::set1(127), as_vec(x)));
  const Ints sign = bits_of(bounded) & INT32_MIN;
  const Floats below_half = numbers_of(sign | static_cast<int32_t>(float_to_bits(0x1.fffffep-2F)));
  return __builtin_convertvector(bounded + below_half, Ints);
}
inline Ints rounded_in_block(Element<FA_Q4_0>, Floats x) {
  return __builtin_convertvector(as_floats(Simd::min(Simd::set1(7), as_vec(x))) + 8.5F, Ints);
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

/// A row of blocks with the bits that ggml gives them: scales are not rounded before codes are computed with them.
template <class Type, fa_dtype from>
inline void make_blocks(Type type, uint8_t *to, Numbers<from> x, int64_t n) {
  const int64_t blocks = n / block_elements;
  for (int64_t first = 0; first < blocks; first += 4) {
    int64_t at[4];  // past the last it is repeated
    for (int i = 0; i < 4; i++) at[i] = smaller(first + i, blocks - 1) * block_elements;
    const Four largest = numbers_of_scales(type, x, at);
    const Four scale = largest / per_scale(type);  // 0 becomes -0 for q4_0
    const FourInts magnitude = bits_of_four(largest) & static_cast<int32_t>(magnitude_bits);
    const auto finite = magnitude < static_cast<int32_t>(infinity_bits);
    const Four inverse = (finite & (scale != 0)) != 0 ? 1 / scale : Four{};
    const Four stored = finite ? scale : Four{} + bits_to_float(0x7fc00000);
    uint16_t scales[width];
    Simd::store_f16(scales, as_vec(repeated_four(stored, LaneNumbers())));
    // Regular: every number times its inverse is finite.
    const FourInts regular =
        (magnitude == 0) | (finite & (magnitude >= static_cast<int32_t>(float_to_bits(0x1p-100F))));
    for (int i = 0; i < 4 && first + i < blocks; i++, to += dtype_bytes(Type::dtype)) {
      __builtin_memcpy(to, scales + i, sizeof scales[i]);
      const Numbers<from> numbers = x + at[i];
      const auto scaled = [&](int d) { return numbers[d] * inverse[i]; };
      if (regular[i] != 0) {
        store_block(type, to + 2, [&](int d) { return rounded_in_block(type, scaled(d)); });
      } else {
        store_block(type, to + 2, [&](int d) { return codes_in_block(type, scaled(d)); });
      }
    }
  }
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
