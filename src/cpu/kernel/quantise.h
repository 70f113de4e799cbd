// Rows of new tokens as codes: rotated in f32, divided by their scales, and rounded once. Plain loops, which compilers
// make vectors of; each ISA's results have the same bits.
#pragma once

#include "cpu/kernel/append.h"

namespace fa::cpu::FA_ISA {
namespace {

/// What makes a row of numbers codes: x / scale + zero, element by element.
struct alignas(64) CodeRow {
  float x[FA_MAX_HEAD_DIM], scale[FA_MAX_HEAD_DIM], zero[FA_MAX_HEAD_DIM];
  uint8_t codes[FA_MAX_HEAD_DIM];
};

constexpr uint32_t magnitude_bits = 0x7fffffff, infinity_bits = 0x7f800000;

/// The bits of max |x|, which order numbers: those of infinity and NaN come last.
inline uint32_t largest_magnitude(const float *x, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; i++) most = larger(most, float_to_bits(x[i]) & magnitude_bits);
  return most;
}

/// min x and max x of numbers that are not NaN, by integers in the same order.
inline void range_of(const float *x, int64_t n, float *low, float *high) {
  const auto turned = [](int32_t bits) { return bits ^ ((bits >> 31) & static_cast<int32_t>(magnitude_bits)); };
  int32_t least = INT32_MAX, most = INT32_MIN;
  for (int64_t i = 0; i < n; i++) {
    const int32_t key = turned(static_cast<int32_t>(float_to_bits(x[i])));
    least = smaller(least, key);
    most = larger(most, key);
  }
  *low = bits_to_float(static_cast<uint32_t>(turned(least)));
  *high = bits_to_float(static_cast<uint32_t>(turned(most)));
}

/// x as a tensor of dtype has it, where it is stored.
inline float stored(char *at, fa_dtype dtype, float x) {
  store_element(at, dtype, x);
  return load_element(at, dtype);
}

/// Of a group.
struct GroupFactors {
  float scale, zero;
};

/// Computes the scale of a group, and the zero where the type has one, stores them, and returns what they are then.
template <class Type>
inline GroupFactors computed_factors(Type, const float *x, int64_t n, char *scale_at, fa_dtype scale_dtype,
                                     char *zero_at, fa_dtype zero_dtype) {
  const uint32_t most = largest_magnitude(x, n);
  const float largest = bits_to_float(most);
  float scale = most >= infinity_bits ? bits_to_float(0x7fc00000) : largest / Type::largest_code;
  if (zero_at == nullptr) return {stored(scale_at, scale_dtype, scale), -0.0F};
  float low = 0;
  if (most < infinity_bits) {
    float high;
    range_of(x, n, &low, &high);
    scale = larger(high / Type::largest_code - low / Type::largest_code, largest / 256);
  }
  scale = stored(scale_at, scale_dtype, scale);
  const float zero = scale > 0 && scale < infinity ? 0 - low / scale : 0;
  return {scale, stored(zero_at, zero_dtype, zero)};
}

/// Sets a row's scales and zeros. Where a scale says nothing of numbers, these become 0, and so do codes.
template <class Type>
inline void set_factors(Type type, CodeRow *row, const TokenRows &rows, const TokenCodes &codes, int64_t head) {
  const auto at = [head](const TokenFactor &f, int64_t group) {
    return f.data == nullptr ? nullptr : f.data + head * f.head + group * f.group;
  };
  const TokenFactor &scale = codes.scale, &zero = codes.zero;
  if (zero.data == nullptr) {
    for (int64_t d = 0; d < rows.dim; d++) row->zero[d] = -0.0F;  // added, it changes no number
  } else if (!codes.computed) {
    for (int64_t d = 0; d < rows.dim; d++) row->zero[d] = load_element(at(zero, d / zero.channels), zero.dtype);
  }
  const int64_t channels = scale.data == nullptr ? rows.dim : scale.channels;
  for (int64_t d = 0; d < rows.dim; d += channels) {
    char *const scale_at = at(scale, d / channels), *const zero_at = at(zero, d / channels);
    float factor = 1;
    if (codes.computed) {
      const GroupFactors group =
          computed_factors(type, row->x + d, channels, scale_at, scale.dtype, zero_at, zero.dtype);
      factor = group.scale;
      for (int64_t i = d; i < d + channels; i++) row->zero[i] = group.zero;
    } else if (scale_at != nullptr) {
      factor = load_element(scale_at, scale.dtype);
    }
    const bool usable = factor - factor == 0 && factor != 0;
    for (int64_t i = d; i < d + channels; i++) {
      row->scale[i] = usable ? factor : 1;
      if (!usable) row->x[i] = 0, row->zero[i] = 0;
    }
  }
}

/// Integers from low to high, whose bits end a sum with 1.5 * 2^23. NaN becomes 0.
inline void make_integers(CodeRow *row, int64_t n, float low, float high) {
  for (int64_t i = 0; i < n; i++) {
    float code = row->x[i] / row->scale[i] + row->zero[i];
    code = code < low ? low : code;
    code = code > high ? high : code;
    code = code == code ? code : 0;
    row->codes[i] = static_cast<uint8_t>(float_to_bits(code + 0x1.8p23f));
  }
}

/// Numbers of `fraction` bits, whose exponents are `less` smaller than f32's, up to the largest one. Below the normal
/// ones, of which the smallest is given, a sum with `unit` has the bits that are kept.
template <int fraction, int less>
inline void make_floats(CodeRow *row, int64_t n, float largest, float smallest_normal, float unit) {
  constexpr int dropped = 23 - fraction;
  for (int64_t i = 0; i < n; i++) {
    const uint32_t bits = float_to_bits(row->x[i] / row->scale[i] + row->zero[i]), magnitude = bits & magnitude_bits;
    const uint32_t most = float_to_bits(largest), kept = smaller(magnitude, most);
    const uint32_t normal =
        ((kept + (1U << (dropped - 1)) - 1 + ((kept >> dropped) & 1)) >> dropped) - (less << fraction);
    const uint32_t subnormal = float_to_bits(bits_to_float(kept) + unit) - float_to_bits(unit);
    const uint32_t code = kept < float_to_bits(smallest_normal) ? subnormal : normal;
    row->codes[i] = static_cast<uint8_t>(magnitude > infinity_bits ? 0x7f : (bits >> 31 << 7) | code);
  }
}

template <class Type>
inline void make_codes(Type, CodeRow *row, int64_t n) {
  make_integers(row, n, Type::first_code, Type::last_code);
}
inline void make_codes(Element<FA_E4M3>, CodeRow *row, int64_t n) {
  make_floats<3, 120>(row, n, 448, 0x1p-6F, 0x1p14F);
}
inline void make_codes(Element<FA_E5M2>, CodeRow *row, int64_t n) {
  make_floats<2, 112>(row, n, 57344, 0x1p-14F, 0x1p7F);
}

/// The scale of a block of finite numbers; most: the bits of the largest.
inline float scale_of_block(Element<FA_Q8_0>, const float *, uint32_t most) {
  return bits_to_float(most) / 127;
}
inline float scale_of_block(Element<FA_Q4_0>, const float *x, uint32_t most) {
  if (most == 0) return -0.0F;  // as that of 0
  while ((float_to_bits(*x) & magnitude_bits) != most) x++;
  return *x / -8;
}

/// The code of a number in scales; halves are rounded away from 0, or up.
inline uint8_t code_in_block(Element<FA_Q8_0>, float x) {
  x = smaller(larger(x, -127.0F), 127.0F);
  const auto whole = static_cast<int>(x);
  const float rest = x - static_cast<float>(whole);
  return static_cast<uint8_t>(whole + (rest >= 0.5F) - (rest <= -0.5F));
}
inline uint8_t code_in_block(Element<FA_Q4_0>, float x) {
  return static_cast<uint8_t>(smaller(larger(x + 8.5F, 0.0F), 15.0F));
}

inline void store_block(Element<FA_Q8_0>, uint8_t *to, const uint8_t *codes) {
  __builtin_memcpy(to, codes, block_elements);
}
inline void store_block(Element<FA_Q4_0>, uint8_t *to, const uint8_t *codes) {
  for (int i = 0; i < 16; i++) to[i] = static_cast<uint8_t>(codes[i] | codes[16 + i] << 4);
}

/// A block of 32 numbers with the bits that ggml gives it: its scale is not rounded before codes are computed with it.
template <class Type>
inline void make_block(Type type, uint8_t *block, const float *x) {
  const uint32_t most = largest_magnitude(x, block_elements);
  const bool finite = most < infinity_bits;
  const float scale = finite ? scale_of_block(type, x, most) : bits_to_float(0x7fc00000);
  store_element<FA_F16>(reinterpret_cast<char *>(block), scale);
  const double inverse = finite && scale != 0 ? 1 / scale : 0;
  uint8_t codes[block_elements];
  for (int i = 0; i < block_elements; i++) {
    // By way of f64, in which products are exact: these are rounded, not contracted with a sum.
    const float code = finite ? static_cast<float>(static_cast<double>(x[i]) * inverse) : 0;
    codes[i] = code_in_block(type, code == code ? code : 0);
  }
  store_block(type, block + 2, codes);
}

/// Stores the codes of a row.
template <class Type>
inline void store_codes(Type type, char *to, const TokenRows &rows, CodeRow *row) {
  make_codes(type, row, rows.dim);
  if constexpr (is_packed(Type::dtype)) {
    for (int64_t i = 0; i < rows.dim / 2; i++)
      to[i] = static_cast<char>((row->codes[2 * i] & 15) | row->codes[2 * i + 1] << 4);
  } else if (rows.to_elem == 1) {
    __builtin_memcpy(to, row->codes, static_cast<size_t>(rows.dim));
  } else {
    for (int64_t i = 0; i < rows.dim; i++) to[i * rows.to_elem] = static_cast<char>(row->codes[i]);
  }
}

/// Whole rows as codes; rotation: of the pairs from element `first` on, where there are any.
inline void quantise_rows(const TokenRows &rows, const TokenCodes &codes, const TokenRotation &rotation,
                          int64_t first) {
  CodeRow row;
  RowBuffer cos, sin;
  if (rotation.pairs > 0) {
    load_row(cos.x, rotation.cos, rotation.cos_elem, rotation.cos_dtype, rotation.pairs);
    load_row(sin.x, rotation.sin, rotation.sin_elem, rotation.sin_dtype, rotation.pairs);
  }
  for (int64_t head = 0; head < rows.heads; head++) {
    load_row(row.x, rows.from + head * rows.from_head, rows.from_elem, rows.from_dtype, rows.dim);
    rotate_row(row.x + first, cos.x, sin.x, rotation);
    char *const to = rows.to + head * rows.to_head;
    with_codes(rows.to_dtype, [&](auto type) {
      if constexpr (code_kind(type.dtype) == CodeKind::block) {
        auto *block = reinterpret_cast<uint8_t *>(to);
        for (int64_t d = 0; d < rows.dim; d += block_elements, block += dtype_bytes(type.dtype))
          make_block(type, block, row.x + d);
      } else {
        set_factors(type, &row, rows, codes, head);
        store_codes(type, to, rows, &row);
      }
    });
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
