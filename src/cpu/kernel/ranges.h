// Rows of numbers where they are stored, and their largest and smallest, from which scales are computed.
#pragma once

#include <type_traits>

#include "cpu/kernel/vectors.h"

namespace fa::cpu::FA_ISA {
namespace {

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

/// Four groups, or blocks, are computed at a time: a number for each.
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
  for (int left = width; left > 4; left /= 2) all = larger_of_halves(all, all);
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

}  // namespace
}  // namespace fa::cpu::FA_ISA
