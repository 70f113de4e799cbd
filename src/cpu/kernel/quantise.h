// Rows of new tokens as codes: rotated in f32, divided by their scales, and rounded once.
//
// Whole vectors of numbers are read where they are stored, once for their range and once for their codes, which are
// packed in registers. Numbers and scales at the ends of their ranges, and rows that are no whole vectors, go through
// f32 in memory.
#pragma once

#include "cpu/kernel/append.h"
#include "cpu/kernel/code_blocks.h"
#include "cpu/kernel/code_vectors.h"
#include "cpu/kernel/ranges.h"

namespace fa::cpu::FA_ISA {
namespace {

/// A row of numbers that becomes codes: x / scale + zero, element by element. Vectors may pass the end of a row by one.
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
inline GroupFactors computed_factors(Type, const Range &range, char *scale_at, fa_dtype scale_dtype, char *zero_at,
                                     fa_dtype zero_dtype) {
  const float largest = bits_to_float(range.magnitude);
  float scale = range.magnitude >= infinity_bits ? bits_to_float(0x7fc00000) : largest / Type::largest_code;
  if (zero_at == nullptr) return {stored(scale_at, scale_dtype, scale), -0.0F};
  if (range.magnitude < infinity_bits)
    scale = larger(range.high / Type::largest_code - range.low / Type::largest_code, largest / 256);
  scale = stored(scale_at, scale_dtype, scale);
  const float zero = scale > 0 && scale < infinity ? 0 - range.low / scale : 0;
  return {scale, stored(zero_at, zero_dtype, zero)};
}

/// Where the scale or the zero of a head's element d is; null where it is absent.
inline char *factor_at(const TokenFactor &f, int64_t head, int64_t d) {
  return f.data == nullptr ? nullptr : f.data + head * f.head + d / f.channels * f.group;
}

/// The factors of the group of channels of a head's row that begins with element d.
template <class Type>
inline GroupFactors factors_of(Type type, const Range &range, const TokenCodes &codes, int64_t head, int64_t d) {
  const TokenFactor &scale = codes.scale, &zero = codes.zero;
  char *const scale_at = factor_at(scale, head, d), *const zero_at = factor_at(zero, head, d);
  if (codes.computed) return computed_factors(type, range, scale_at, scale.dtype, zero_at, zero.dtype);
  return {scale_at == nullptr ? 1 : load_element(scale_at, scale.dtype),
          zero_at == nullptr ? -0.0F : load_element(zero_at, zero.dtype)};  // -0, added, changes no number
}
template <class Type>
inline GroupFactors factors_of(Type type, const float *x, const TokenCodes &codes, int64_t head, int64_t d,
                               int64_t channels) {
  const Range range = codes.computed ? range_of(x + d, channels, codes.zero.data != nullptr) : Range{};
  return factors_of(type, range, codes, head, d);
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

/// Consecutive elements that have a scale and a zero in common; 0 where only each element for itself has them.
inline int64_t group_channels(const TokenRows &rows, const TokenCodes &codes) {
  const int64_t scale_channels = codes.scale.data == nullptr ? rows.dim : codes.scale.channels;
  const int64_t zero_channels = codes.zero.data == nullptr ? rows.dim : codes.zero.channels;
  const int64_t channels = smaller(scale_channels, zero_channels);
  return scale_channels % channels == 0 && zero_channels % channels == 0 ? channels : 0;
}

/// The codes of a group whose elements can be divided by their scale.
template <class Type>
inline void make_group(Type type, uint8_t *to, const float *x, int64_t n, bool packed, const GroupFactors &group) {
  if (group.usable()) {
    make_codes(type, to, x, n, packed, OneFactor(group.scale, group.zero));
  } else {
    __builtin_memset(to, 0, static_cast<size_t>(packed ? n / 2 : n));
  }
}

/// The codes of a row, in order, or two a byte.
template <class Type>
inline void make_row(Type type, uint8_t *to, CodeRow *row, const TokenRows &rows, const TokenCodes &codes, int64_t head,
                     bool packed) {
  const int64_t channels = group_channels(rows, codes);
  if (channels == 0 || (channels != rows.dim && channels % (2 * width) != 0)) {
    set_factors(type, row, rows, codes, head);
    return make_codes(type, to, row->x, rows.dim, packed, EachFactor{row->scale, row->zero});
  }
  for (int64_t d = 0; d < rows.dim; d += channels) {
    const GroupFactors group = factors_of(type, row->x, codes, head, d, channels);
    make_group(type, to + (packed ? d / 2 : d), row->x + d, channels, packed, group);
  }
}

/// A quotient whose sign is the number's: that of -0 is lost in sums, and floating-point codes have it.
template <class Type>
inline Floats with_sign(Type, Floats quotient, Floats number) {
  if constexpr (code_kind(Type::dtype) != CodeKind::floating) return quotient;
  return numbers_of(bits_of(quotient) | (bits_of(number) & INT32_MIN));
}

/// Whether quotients by a scale, and codes of them, take the fast way.
template <class Type>
inline bool rounds_to_codes(Type type, const Range &range, const GroupFactors &group) {
  return group.scale >= 0x1p-60F && group.scale <= 0x1p60F && range.magnitude < infinity_bits &&
         bits_to_float(range.magnitude) <= group.scale * rounded_limit(type) && __builtin_fabsf(group.zero) <= 0x1p20F;
}

/// Rows of whole groups of vectors: where their numbers are, and where their codes go.
struct GroupedRows {
  const char *from;
  char *to;
  int64_t from_head, to_head, first_head, heads;
};

/// The codes of rows of groups of `channels` elements. The ranges of four groups come first: they take long, and not
/// much of a core's time.
template <class Type, fa_dtype from>
inline void make_groups(Type type, const GroupedRows &grouped, int64_t channels, CodeRow *row, const TokenRows &rows,
                        const TokenCodes &codes) {
  constexpr bool packed = is_packed(Type::dtype);
  const bool bounds = codes.computed && codes.zero.data != nullptr;
  int64_t head = 0, d = 0;
  while (head < grouped.heads) {
    Numbers<from> x[4];
    int64_t heads[4], first[4];
    int count = 0;
    for (int i = 0; i < 4; i++) {  // past the last it is repeated
      if (head < grouped.heads) {
        heads[i] = head, first[i] = d, count++;
        d += channels;
        if (d == rows.dim) d = 0, head++;
      } else {
        heads[i] = heads[i - 1], first[i] = first[i - 1];
      }
      x[i] = Numbers<from>{grouped.from + heads[i] * grouped.from_head} + first[i];
      x[i].prefetch(channels);
    }
    Range range[4];
    ranges_of_four(x, channels, bounds, range);
    GroupFactors factors[4];
    for (int i = 0; i < count; i++)
      factors[i] = factors_of(type, range[i], codes, grouped.first_head + heads[i], first[i]);
    for (int i = 0; i < count; i++) {
      auto *const at =
          reinterpret_cast<uint8_t *>(grouped.to + heads[i] * grouped.to_head) + (packed ? first[i] / 2 : first[i]);
      if (!rounds_to_codes(type, range[i], factors[i])) {
        load_unit_row<from>(row->x, x[i].at, channels);
        make_group(type, at, row->x, channels, packed, factors[i]);
        continue;
      }
      const Quotient quotient(factors[i].scale);
      if (const Floats zero = all(factors[i].zero); float_to_bits(factors[i].zero) == float_to_bits(-0.0F)) {
        store_codes(type, at, channels, [&](int64_t j) {
          const Floats number = x[i][j];
          return rounded_codes(type, with_sign(type, quotient(number), number));
        });
      } else {
        store_codes(type, at, channels, [&](int64_t j) { return rounded_codes(type, quotient(x[i][j]) + zero); });
      }
    }
  }
}

/// Stores the codes of a row that has no whole groups, or not at one place.
template <class Type>
inline void store_row_codes(Type type, char *to, CodeRow *row, const TokenRows &rows, const TokenCodes &codes,
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

/// Whole rows of one type as codes of another.
template <class Type, fa_dtype from_dtype>
inline void quantise_rows_of(Type type, const TokenRows &rows, const TokenCodes &codes, const TokenRotation &rotation,
                             int64_t first) {
  constexpr bool blocks = code_kind(Type::dtype) == CodeKind::block;
  constexpr int64_t bytes = dtype_bytes(from_dtype);
  const Rotation r(rotation);
  CodeRow row;
  for (int64_t i = rows.dim; i % width != 0; i++) row.x[i] = 0, row.scale[i] = 1, row.zero[i] = 0;
  const bool adjacent = rows.from_elem == bytes, rotated = rotation.pairs > 0 || rotation.hadamard > 1;
  const int64_t channels = blocks ? block_elements : group_channels(rows, codes);
  const bool whole =
      channels != 0 && channels % (2 * width) == 0 && (is_packed(Type::dtype) || blocks || rows.to_elem == 1);
  if (adjacent && whole && !rotated) {
    if constexpr (blocks) {
      for (int64_t head = 0; head < rows.heads; head++) {
        const Numbers<from_dtype> numbers = {rows.from + head * rows.from_head};
        numbers.prefetch(rows.dim);
        make_blocks(type, reinterpret_cast<uint8_t *>(rows.to + head * rows.to_head), numbers, rows.dim);
      }
    } else {
      make_groups<Type, from_dtype>(type, {rows.from, rows.to, rows.from_head, rows.to_head, 0, rows.heads}, channels,
                                    &row, rows, codes);
    }
    return;
  }
  char *const in_f32 = reinterpret_cast<char *>(row.x);
  for (int64_t head = 0; head < rows.heads; head++) {
    char *const to = rows.to + head * rows.to_head;
    load_rotated_row<from_dtype>(row.x, rows.from + head * rows.from_head, rows, r, rotation, first);
    if constexpr (blocks) {
      make_blocks(type, reinterpret_cast<uint8_t *>(to), Numbers<FA_F32>{in_f32}, rows.dim);
    } else if (whole) {
      make_groups<Type, FA_F32>(type, {in_f32, to, 0, 0, head, 1}, channels, &row, rows, codes);
    } else {
      store_row_codes(type, to, &row, rows, codes, head);
    }
  }
}

/// Whole rows as codes; rotation: of the pairs from element `first` on, where there are any, and of blocks.
inline void quantise_rows(const TokenRows &rows, const TokenCodes &codes, const TokenRotation &rotation,
                          int64_t first) {
  with_codes(rows.to_dtype, [&](auto type) {
    with_compute_type(rows.from_dtype, [&](auto from) {
      quantise_rows_of<decltype(type), decltype(from)::dtype>(type, rows, codes, rotation, first);
    });
  });
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
