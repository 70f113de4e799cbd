// Rows of new tokens as codes: rotated in f32, divided by their scales, and rounded once.
//
// Long appends of 128 elements a head, from cold memory, with AVX-512 on two cores that were busy otherwise: 0.4 to 0.9 ns
// an element, which is 64 to 75 % of the rate at which memcpy moves as many bytes for codes of one byte from f32, 41 to 71
// from 16-bit numbers, and 28 to 54 for half bytes and blocks. Copies in the cache's own type have 90 to 99.
#pragma once

#include "cpu/kernel/append.h"
#include "cpu/kernel/code_vectors.h"

namespace fa::cpu::FA_ISA {
namespace {

/// What makes a row of numbers codes: x / scale + zero, element by element. Vectors may pass the end of a row by one.
struct alignas(64) CodeRow {
  float x[FA_MAX_HEAD_DIM + width], scale[FA_MAX_HEAD_DIM + width], zero[FA_MAX_HEAD_DIM + width];
  uint8_t codes[FA_MAX_HEAD_DIM + width];
};

/// x as a tensor of dtype has it, where it is stored.
inline float stored(char *at, fa_dtype dtype, float x) {
  store_element(at, dtype, x);
  return load_element(at, dtype);
}

/// The scale and the zero of a group.
struct GroupFactors {
  float scale, zero;

  /// Whether numbers can be divided by the scale; else codes are 0.
  bool usable() const { return scale - scale == 0 && scale != 0; }
};

/// Computes the scale of a group, and the zero where the type has one, stores them, and returns the stored numbers.
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

/// Where the scale or the zero of a head's element d is; null where it is absent.
inline char *factor_at(const TokenFactor &f, int64_t head, int64_t d) {
  return f.data == nullptr ? nullptr : f.data + head * f.head + d / f.channels * f.group;
}

/// The factors of the group of channels of a head's row that begins with element d.
template <class Type>
inline GroupFactors factors_of(Type type, const float *x, const TokenCodes &codes, int64_t head, int64_t d,
                               int64_t channels) {
  const TokenFactor &scale = codes.scale, &zero = codes.zero;
  char *const scale_at = factor_at(scale, head, d), *const zero_at = factor_at(zero, head, d);
  if (codes.computed) return computed_factors(type, x + d, channels, scale_at, scale.dtype, zero_at, zero.dtype);
  return {scale_at == nullptr ? 1 : load_element(scale_at, scale.dtype),
          zero_at == nullptr ? -0.0F : load_element(zero_at, zero.dtype)};  // -0, added, changes no number
}

/// Sets a row's scales and zeros. Where a scale says nothing of numbers, these become 0, and so do codes.
template <class Type>
inline void set_factors(Type type, CodeRow *row, const TokenRows &rows, const TokenCodes &codes, int64_t head) {
  const TokenFactor &zero = codes.zero;
  const bool reads_zeros = zero.data != nullptr && !codes.computed;
  const int64_t channels = codes.scale.data == nullptr ? rows.dim : codes.scale.channels;
  for (int64_t d = 0; d < rows.dim; d += channels) {
    const GroupFactors group = factors_of(type, row->x, codes, head, d, channels);
    for (int64_t i = d; i < d + channels; i++) {
      row->scale[i] = group.usable() ? group.scale : 1;
      row->zero[i] = reads_zeros ? load_element(factor_at(zero, head, i), zero.dtype) : group.zero;
      if (!group.usable()) row->x[i] = 0, row->zero[i] = 0;
    }
  }
}

/// The codes of a row, in order, or two a byte.
template <class Type>
inline void make_row(Type type, uint8_t *to, CodeRow *row, const TokenRows &rows, const TokenCodes &codes, int64_t head,
                     bool packed) {
  const int64_t scale_channels = codes.scale.data == nullptr ? rows.dim : codes.scale.channels;
  const int64_t zero_channels = codes.zero.data == nullptr ? rows.dim : codes.zero.channels;
  const int64_t channels = smaller(scale_channels, zero_channels);  // that have both in common
  const bool in_groups = scale_channels % channels == 0 && zero_channels % channels == 0;
  if (!in_groups || (channels != rows.dim && channels % (2 * width) != 0)) {
    set_factors(type, row, rows, codes, head);
    return make_codes(type, to, row->x, rows.dim, packed, EachFactor{row->scale, row->zero});
  }
  for (int64_t d = 0; d < rows.dim; d += channels) {
    const GroupFactors group = factors_of(type, row->x, codes, head, d, channels);
    uint8_t *const at = to + (packed ? d / 2 : d);
    if (group.usable()) {
      make_codes(type, at, row->x + d, channels, packed, OneFactor(group.scale, group.zero));
    } else {
      __builtin_memset(at, 0, static_cast<size_t>(packed ? channels / 2 : channels));
    }
  }
}

/// Stores the codes of a row.
template <class Type>
inline void store_codes(Type type, char *to, CodeRow *row, const TokenRows &rows, const TokenCodes &codes,
                        int64_t head) {
  constexpr bool packed = is_packed(Type::dtype);
  if (rows.dim % (packed ? 2 * width : width) == 0 && (packed || rows.to_elem == 1))
    return make_row(type, reinterpret_cast<uint8_t *>(to), row, rows, codes, head, packed);
  make_row(type, row->codes, row, rows, codes, head, false);
  if constexpr (packed) {
    for (int64_t i = 0; i < rows.dim / 2; i++)
      to[i] = static_cast<char>((row->codes[2 * i] & 15) | row->codes[2 * i + 1] << 4);
  } else {
    for (int64_t i = 0; i < rows.dim; i++) to[i * rows.to_elem] = static_cast<char>(row->codes[i]);
  }
}

/// How many bytes behind a row the prefetch is: rows of adjacent heads or tokens follow there.
constexpr int64_t prefetched = 4096;

/// Whole rows as codes; rotation: of the pairs from element `first` on, where there are any.
inline void quantise_rows(const TokenRows &rows, const TokenCodes &codes, const TokenRotation &rotation,
                          int64_t first) {
  CodeRow row;
  RowBuffer cos, sin;
  if (rotation.pairs > 0) {
    load_row(cos.x, rotation.cos, rotation.cos_elem, rotation.cos_dtype, rotation.pairs);
    load_row(sin.x, rotation.sin, rotation.sin_elem, rotation.sin_dtype, rotation.pairs);
  }
  const int64_t from_bytes = rows.from_elem == dtype_bytes(rows.from_dtype) ? rows.dim * rows.from_elem : 0;
  for (int64_t i = rows.dim; i % width != 0; i++) row.x[i] = 0, row.scale[i] = 1, row.zero[i] = 0;
  with_codes(rows.to_dtype, [&](auto type) {
    for (int64_t head = 0; head < rows.heads; head++) {
      const char *const from = rows.from + head * rows.from_head;
      for (int64_t i = 0; i < from_bytes; i += 64) __builtin_prefetch(from + prefetched + i);
      load_row(row.x, from, rows.from_elem, rows.from_dtype, rows.dim);
      if (rotation.pairs > 0) rotate_row(row.x + first, cos.x, sin.x, rotation);
      char *const to = rows.to + head * rows.to_head;
      if constexpr (code_kind(type.dtype) == CodeKind::block) {
        make_blocks(type, reinterpret_cast<uint8_t *>(to), row.x, rows.dim);
      } else {
        store_codes(type, to, &row, rows, codes, head);
      }
    }
  });
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
