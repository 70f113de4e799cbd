// A block of keys or values as rows of operands: in place where they already are, else copied and converted.
#pragma once

#include "cpu/kernel/codes.h"
#include "cpu/kernel/tile_products.h"

namespace fa::cpu::FA_ISA {
namespace {

struct Rows {
  const float *data;  // operands: see products.h
  int64_t pitch;
};

/// The elements of a row in whole tiles of operands.
constexpr int64_t padded_elements(int64_t n) {
  return (n + tile_elements - 1) / tile_elements * tile_elements;
}

/// The parts of n numbers in whole tiles, of which load(d) loads a vector: rows of n bf16.
template <class S, class Load>
inline void split_vectors(const Load &load, int64_t n, uint16_t *to) {
  for (int64_t d = 0; d < n; d += 2 * width) {
    Vec first = load(d), second = load(d + width);
    for (int part = 0; part < S::parts; part++) {
      uint16_t *at = to + part * n + d;
      S::store(reinterpret_cast<float *>(at), S::rounded(first, second));
      first = S::sub(first, S::load_bf16(at));
      second = S::sub(second, S::load_bf16(at + width));
    }
  }
}

/// The parts of n numbers, rows of padded_elements(n) bf16 that are 0 from the n-th on. The numbers are padded, too.
template <class S = Simd>
inline void split_row(float *row, int64_t n, uint16_t *to) {
  const int64_t padded = padded_elements(n);
  for (int64_t d = n; d < padded; d++) row[d] = 0;
  split_vectors<S>([&](int64_t d) { return S::load(row + d); }, padded, to);
}

/// The same straight from a row without gaps, in whole tiles. False where it is another one.
template <class S = Simd>
inline bool split_unit_row(const CacheRows &rows, const Pages &pages, int64_t j, int64_t n, uint16_t *to) {
  if (is_quantised(rows.dtype) || rows.element != dtype_bytes(rows.dtype) || n % tile_elements != 0) return false;
  const char *from = row_of(rows, pages, j);
  with_compute_type(rows.dtype, [&](auto type) {
    constexpr fa_dtype dtype = decltype(type)::dtype;
    split_vectors<S>([&](int64_t d) { return load_vector<dtype>(from + d * dtype_bytes(dtype)); }, n, to);
  });
  return true;
}

/// Keys j .. j + n - 1 as rows of row_floats(dim); stored(n) of them may be read, of which the last have
/// any contents.
inline Rows stage_keys(const KeyStream &s, int64_t j, int64_t n, int64_t dim, float *buffer) {
  const int64_t bytes = dtype_bytes(s.k.dtype), pitch = row_floats(dim);
  const bool are_operands = Simd::parts == 1 && !is_quantised(s.k.dtype) && s.k_rope_dim == 0 &&
                            bytes * Simd::pack == 4 && dim == pitch * Simd::pack && s.k.element == bytes &&
                            s.k.row % 4 == 0;
  // A tile's rows are read together: rows of many heads next to each other would share few sets of a cache.
  const bool near = !has_tiles || (n == stored(n) && s.k.row <= 2 * dim * bytes);
  if (are_operands && near && evenly_spaced(s.pages, j, n))
    return {reinterpret_cast<const float *>(row_of(s.k, s.pages, j)), s.k.row / 4};
  for (int64_t i = 0; i < n; i++) {
    if constexpr (Simd::pack == 1) {
      load_key(buffer + i * pitch, s, j + i, dim);
    } else if constexpr (Simd::parts > 1) {
      auto *const to = reinterpret_cast<uint16_t *>(buffer + i * pitch);
      if (s.k_rope_dim == 0 && split_unit_row(s.k, s.pages, j + i, dim, to)) continue;
      float row[padded_elements(FA_MAX_HEAD_DIM)];
      load_key(row, s, j + i, dim);
      split_row(row, dim, to);
    } else {
      const char *from = row_of(s.k, s.pages, j + i);
      for (int64_t d = dim / 2; d < pitch; d++) buffer[i * pitch + d] = 0;  // the last pair may be half of one
      char *to = reinterpret_cast<char *>(buffer + i * pitch);
      if (s.k.element == bytes) {
        __builtin_memcpy(to, from, static_cast<size_t>(dim * bytes));
      } else {
        for (int64_t d = 0; d < dim; d++) __builtin_memcpy(to + d * 2, from + d * s.k.element, 2);
      }
    }
  }
  return {buffer, pitch};
}

/// The n elements of a bf16 row, those that are not finite as 0 when asked.
inline const uint16_t *bf16_row(const char *from, int64_t stride, int64_t n, bool finite_only, uint16_t *buffer) {
  if (stride == 2 && !finite_only) return reinterpret_cast<const uint16_t *>(from);
  for (int64_t d = 0; d < n; d++) {
    __builtin_memcpy(buffer + d, from + d * stride, 2);
    if (finite_only && (buffer[d] & 0x7f80) == 0x7f80) buffer[d] = 0;
  }
  return buffer;
}

/// Values of keys j .. j + n - 1 in pairs of keys: [operands(n)][dim].
template <class S = Simd>
inline void stage_value_pairs(const QueryTile &tile, int64_t j, int64_t n, int64_t dim, float *buffer) {
  const KeyStream &s = tile.keys;
  uint16_t rows[2][FA_MAX_HEAD_DIM];
  for (int64_t i = 0; i < n; i += 2) {
    const bool alone = i + 1 == n;
    const uint16_t *low = bf16_row(row_of(s.v, s.pages, j + i), s.v.element, dim, tile.finite_values_only, rows[0]);
    const uint16_t *high =
        alone ? nullptr : bf16_row(row_of(s.v, s.pages, j + i + 1), s.v.element, dim, tile.finite_values_only, rows[1]);
    float *to = buffer + i / 2 * dim;
    int64_t d = 0;
    if (!alone)
      for (; d + width <= dim; d += width) S::store(to + d, S::interleave(low + d, high + d));
    for (; d < dim; d++) {
      const uint32_t pair = low[d] | (alone ? 0u : static_cast<uint32_t>(high[d]) << 16);
      __builtin_memcpy(to + d, &pair, sizeof pair);
    }
  }
}

/// 0 in place of numbers that are not finite.
inline void keep_finite(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = x[i] - x[i] == 0 ? x[i] : 0;
}

/// The floats of the rows that stage_value_tiles copies.
template <class S = Simd>
constexpr int64_t value_rows_floats(int64_t dim) {
  return tile_elements * S::parts * padded_elements(dim) / S::pack;
}

/// The parts of value j, rows of padded_elements(dim) bf16: where there is one, in place if possible.
template <class S = Simd>
inline const uint16_t *value_parts(const QueryTile &tile, int64_t j, int64_t dim, uint16_t *buffer) {
  const KeyStream &s = tile.keys;
  if constexpr (S::parts == 1) {
    return bf16_row(row_of(s.v, s.pages, j), s.v.element, dim, tile.finite_values_only, buffer);
  } else {
    if (!tile.finite_values_only && split_unit_row<S>(s.v, s.pages, j, dim, buffer)) return buffer;
    float row[padded_elements(FA_MAX_HEAD_DIM)];
    load_cached_row(row, s.v, s.v_factors, s.pages, j, dim);
    if (tile.finite_values_only) keep_finite(row, dim);
    split_row<S>(row, dim, buffer);
    return buffer;
  }
}

/// Values of keys j .. j + n - 1 as packed tiles, a row for each dim; the operands of keys beyond are 0. `rows` has
/// room for those that must be copied.
template <class S = Simd>
inline void stage_value_tiles(const QueryTile &tile, int64_t j, int64_t n, int64_t dim, float *buffer, float *rows) {
  static constexpr uint16_t none[S::parts * padded_elements(FA_MAX_HEAD_DIM)] = {};
  uint16_t *const copies = reinterpret_cast<uint16_t *>(rows);
  for (int64_t i = 0; i < n; i += tile_elements) {
    const uint16_t *row[tile_elements];
    for (int r = 0; r < tile_elements; r++)
      row[r] = i + r < n ? value_parts<S>(tile, j + i + r, dim, copies + r * S::parts * padded_elements(dim)) : none;
    for (int part = 0; part < S::parts; part++, buffer += stored(dim) * tile_rows) {
      if (part > 0)
        for (const uint16_t *&each : row) each += padded_elements(dim);
      transpose_pairs<S>(row, dim, buffer);
    }
  }
}

/// Values of keys j .. j + n - 1 in pairs of keys, in whole tiles: [operands(n)][parts][dim]. `rows` as above.
template <class S = Simd>
inline void stage_value_rows(const QueryTile &tile, int64_t j, int64_t n, int64_t dim, float *buffer, float *rows) {
  uint16_t *const copies = reinterpret_cast<uint16_t *>(rows);
  const int64_t pitch = padded_elements(dim);
  const bool whole = dim % tile_elements == 0;
  const auto value = [&](int64_t i) -> const uint16_t * {
    uint16_t *copy = copies + i % 2 * S::parts * pitch;
    if (i >= n) {
      for (int64_t d = 0; d < S::parts * pitch; d++) copy[d] = 0;
      return copy;
    }
    const uint16_t *row = value_parts<S>(tile, j + i, dim, copy);
    if (S::parts > 1 || whole || row == copy) return row;
    __builtin_memcpy(copy, row, static_cast<size_t>(2 * dim));
    return copy;
  };
  for (int64_t i = 0; i < 2 * stored(operands(n)); i += 2) {
    const uint16_t *low = value(i), *high = value(i + 1);
    for (int part = 0; part < S::parts; part++, low += pitch, high += pitch, buffer += stored(dim))
      for (int64_t d = 0; d < stored(dim); d += 2 * width) {
        const Vec a = S::load(reinterpret_cast<const float *>(low + d));
        const Vec b = S::load(reinterpret_cast<const float *>(high + d));
        S::store(buffer + d, S::pair_lower(a, b));
        if (d + width < stored(dim)) S::store(buffer + d + width, S::pair_upper(a, b));
      }
  }
}

/// Values of keys j .. j + n - 1: operands(n) rows of dim operands, or packed tiles, by way of `rows`.
template <class S = Simd>
inline Rows stage_values(const QueryTile &tile, int64_t j, int64_t n, int64_t dim, float *buffer,
                         [[maybe_unused]] float *rows) {
  const KeyStream &s = tile.keys;
  if constexpr (HasTiles<S>) {
    stage_value_tiles<S>(tile, j, n, dim, buffer, rows);
  } else if constexpr (S::pack == 2) {
    stage_value_pairs(tile, j, n, dim, buffer);
  } else {
    if (s.v.dtype == FA_F32 && s.v.element == 4 && evenly_spaced(s.pages, j, n) && !tile.finite_values_only)
      return {reinterpret_cast<const float *>(row_of(s.v, s.pages, j)), s.v.row / 4};
    for (int64_t i = 0; i < n; i++) load_cached_row(buffer + i * dim, s.v, s.v_factors, s.pages, j + i, dim);
    if (tile.finite_values_only) keep_finite(buffer, n * dim);
  }
  return {buffer, dim};
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
