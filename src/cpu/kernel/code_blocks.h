// Rows of numbers as blocks of codes, each behind its scale: q8_0 and q4_0, with the bits that ggml gives them.
#pragma once

#include "cpu/codes.h"
#include "cpu/kernel/ranges.h"

namespace fa::cpu::FA_ISA {
namespace {

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

}  // namespace
}  // namespace fa::cpu::FA_ISA
