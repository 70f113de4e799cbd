// Staging of query and key tiles in the workspace: rows of any type and stride become operands. NaN and infinities are
// kept where scores are computed from them; in the rows that weights multiply they become 0, so that they reach
// gradients through the scores alone.
#pragma once

#include "cpu/kernel/backward/range.h"
#include "cpu/kernel/backward/staged.h"

namespace fa::cpu::FA_ISA {
namespace {

inline Vec finite_or_zero(Vec x) {
  return Simd::select(Simd::equal(Simd::sub(x, x), Simd::zero()), x, Simd::zero());
}

/// W rows as operands of pairs of rows: [operands(W)][row_pitch(dim)], dim a multiple of W.
inline void rows_to_operands(const float *const *rows, int64_t dim, float *to) {
  for (int i = 0; i < width; i += Simd::pack)
    for (int64_t d = 0; d < dim; d += width)
      Simd::store(to + i / Simd::pack * row_pitch(dim) + d,
                  make_operands(finite_or_zero(Simd::load(rows[i] + d)),
                                finite_or_zero(Simd::load(rows[i + Simd::pack - 1] + d))));
}

inline float dot(const float *a, const float *b, int64_t n) {
  Vec sum = Simd::zero();
  for (int64_t i = 0; i < n; i += width) sum = Simd::fma(Simd::load(a + i), Simd::load(b + i), sum);
  alignas(64) float part[width];
  Simd::store(part, sum);
  float total = 0;
  for (int i = 0; i < width; i++) total += part[i];
  return total;
}

/// A row of `dim` elements, with zeros to the end of a vector; all zeros where from is null.
inline void load_padded(float *to, const char *from, int64_t stride, fa_dtype dtype, int64_t dim) {
  const int64_t n = from != nullptr ? dim : 0;
  if (n > 0) load_row(to, from, stride, dtype, dim);
  for (int64_t d = n; d < padded(dim); d++) to[d] = 0;
}

/// Prefetches a row that is read, or written, some rows later: tensors are seldom cached.
template <bool write>
inline void prefetch_row(const char *row, fa_dtype dtype, int64_t dim) {
  if (row == nullptr) return;
  for (int64_t i = 0; i < dim * dtype_bytes(dtype); i += 64) __builtin_prefetch(row + i, write);
}

/// Lanes of one vector of queries: the keys that each attends, and all of them together.
inline void stage_lanes(const BackwardQueryTile &tile, const StagedQueries &block, int v) {
  block.low_of[v] = block.full_high[v] = INT32_MAX;
  block.high_of[v] = block.full_low[v] = INT32_MIN;
  for (int i = v * width; i < (v + 1) * width; i++) {
    const bool there = i < tile.rows && tile.gradient[i].dout != nullptr;
    const QueryRow &row = tile.row[smaller(i, tile.rows - 1)];
    block.low[i] = there ? row.low : 0;
    block.high[i] = there ? row.high : 0;
    block.position[i] = row.position;
    block.position_overflow[i] = row.position_overflow;
    block.slope[i] = row.slope;
    block.neg_lse_log2[i] = there ? -tile.gradient[i].lse * log2_e : 0;
    if (block.low[i] < block.high[i]) {
      block.low_of[v] = smaller(block.low_of[v], block.low[i]);
      block.high_of[v] = larger(block.high_of[v], block.high[i]);
    }
    block.full_low[v] = larger(block.full_low[v], block.low[i]);
    block.full_high[v] = smaller(block.full_high[v], block.high[i]);
  }
}

/// Operands behind those of elements in columns, and behind the last vector in rows.
inline void clear_pads(const StagedQueries &block, int rows, int64_t dim, int64_t dim_v) {
  const auto clear = [](float *from, int64_t count) {
    for (int64_t i = 0; i < count; i += width) Simd::store(from + i, Simd::zero());
  };
  const int64_t vectors = (rows + width - 1) / width, first = operands(vectors * width);
  for (int i = 0; i * Simd::tile_vectors < vectors; i++) {
    clear(block.q_columns_of(i, dim) + operands(dim) * lanes, (stored(operands(dim)) - operands(dim)) * lanes);
    clear(block.dout_columns_of(i, dim_v) + operands(dim_v) * lanes,
          (stored(operands(dim_v)) - operands(dim_v)) * lanes);
  }
  const int64_t pitch = row_pitch(padded(dim)), pitch_v = row_pitch(padded(dim_v));
  clear(block.q_rows + first * pitch, operands(width) * pitch);
  clear(block.dout_rows + first * pitch_v, operands(width) * pitch_v);
}

inline void stage_queries(BackwardQueryTile &tile, void *scratch) {
  const Attention &a = *tile.attention;
  const StagedQueries block(a, ScratchAllocator(behind(tile)));
  const BackwardScratch s(a, ScratchAllocator(scratch));
  const int64_t dim = a.head_dim, dim_v = a.head_dim_v, pitch = BackwardScratch::staging_pitch(a);
  float *out = s.scores;  // a row, which fits: see below
  static_assert(key_block * block_lanes >= FA_MAX_HEAD_DIM + width);
  float *q[width], *dout[width];
  for (int i = 0; i < width; i++) {
    q[i] = s.rows + i * pitch;
    dout[i] = s.rows + (width + i) * pitch;
  }
  uint32_t special = 0;
  for (int v = 0; v * width < tile.rows; v++) {
    stage_lanes(tile, block, v);
    for (int r = (v + 1) * width; r < smaller(tile.rows, (v + 2) * width); r++) {
      prefetch_row<false>(tile.row[r].q, a.q_dtype, dim);
      prefetch_row<false>(tile.gradient[r].dout, tile.dout_dtype, dim_v);
      if (!tile.delta_given) prefetch_row<false>(tile.gradient[r].out, a.out_dtype, dim_v);
    }
    for (int i = 0; i < width; i++) {
      const int r = v * width + i;
      const bool there = r < tile.rows && tile.gradient[r].dout != nullptr;
      load_padded(q[i], there ? tile.row[r].q : nullptr, tile.q_elem, a.q_dtype, dim);
      load_padded(dout[i], there ? tile.gradient[r].dout : nullptr, tile.dout_elem, tile.dout_dtype, dim_v);
      float delta = 0;
      if (there) {
        const BackwardRow &g = tile.gradient[r];
        delta = g.delta;
        if (!tile.delta_given) {
          load_padded(out, g.out, tile.out_elem, a.out_dtype, dim_v);
          delta = dot(out, dout[i], padded(dim_v)) - g.delta;
        }
        special |= any_out_of_range(&delta, 1);
        special |= any_special(&g.lse, 1);
      }
      block.neg_delta[r] = -delta;
      special |= any_out_of_range(q[i], padded(dim));
      special |= any_out_of_range(dout[i], padded(dim_v));
      if (rounds_operands && tile.dout_dtype == FA_F32)
        for (int64_t d = 0; d < dim_v; d += width) Simd::store(dout[i] + d, within_bf16(Simd::load(dout[i] + d)));
    }
    const int subtile = v / Simd::tile_vectors, at = v % Simd::tile_vectors * width;
    rows_to_columns(q, dim, block.q_columns_of(subtile, dim) + at);
    rows_to_columns(dout, dim_v, block.dout_columns_of(subtile, dim_v) + at);
    rows_to_operands(q, padded(dim), block.q_rows + operands(v * width) * row_pitch(padded(dim)));
    rows_to_operands(dout, padded(dim_v), block.dout_rows + operands(v * width) * row_pitch(padded(dim_v)));
  }
  if constexpr (has_tiles) clear_pads(block, tile.rows, dim, dim_v);
  for (int64_t i = 0; i < stored(dim) * block_lanes; i += width) Simd::store(block.dq + i, Simd::zero());
  tile.special = special != 0;
}

constexpr int prefetch_distance = 8;

/// Rows of keys or values, operands(dim) operands each; true when some element is not finite, or unusually large.
inline bool stage_operand_rows(const CacheRows &rows, const Pages &pages, fa_dtype dtype, int64_t first, int n,
                               int64_t dim, float *to) {
  const int64_t pitch = row_pitch(operands(dim));
  uint32_t special = 0;
  for (int i = 0; i < n; i++) {
    const char *from = row_of(rows, pages, first + i);
    if (i + prefetch_distance < n) prefetch_row<false>(row_of(rows, pages, first + i + prefetch_distance), dtype, dim);
    if constexpr (Simd::pack == 1) {
      load_row(to + i * pitch, from, rows.element, dtype, dim);
      special |= any_out_of_range(to + i * pitch, dim);
    } else {
      for (int64_t d = dim / 2; d < stored(operands(dim)); d++)
        to[i * pitch + d] = 0;  // the last pair may be half of one
      uint16_t *row = reinterpret_cast<uint16_t *>(to + i * pitch);
      if (rows.element == 2) {
        __builtin_memcpy(row, from, static_cast<size_t>(2 * dim));
      } else {
        for (int64_t d = 0; d < dim; d++) __builtin_memcpy(row + d, from + d * rows.element, 2);
      }
      special |= any_out_of_range(row, dim);
    }
  }
  return special != 0;
}

/// Packed tiles, a row for each dim.
template <class S = Simd>
inline void stage_key_tiles(const StagedKeys &block, int n, int64_t dim, bool special) {
  const int64_t pitch = row_pitch(operands(dim)), columns = special ? tile_rows : dim;
  static constexpr uint16_t none[FA_MAX_HEAD_DIM] = {};
  uint16_t finite[tile_elements][tile_rows];
  float *to = block.k_by_keys;
  for (int i = 0; i < n; i += tile_elements, to += stored(dim) * tile_rows)
    for (int64_t d = 0; d < dim; d += columns) {
      const int64_t count = smaller(columns, dim - d);
      const uint16_t *row[tile_elements];
      for (int r = 0; r < tile_elements; r++) {
        row[r] = (i + r < n ? reinterpret_cast<const uint16_t *>(block.k + (i + r) * pitch) : none) + d;
        if (special) row[r] = bf16_row(reinterpret_cast<const char *>(row[r]), 2, count, true, finite[r]);
      }
      transpose_pairs<S>(row, count, to + d * tile_rows);
    }
}

/// Interleaves pairs of keys, in their order; the last may be half of one.
template <class S = Simd>
inline void interleave_keys(const StagedKeys &block, int n, int64_t dim) {
  const int64_t pitch = row_pitch(operands(dim));
  static constexpr uint16_t none[width] = {};
  const auto row = [&](int key) { return reinterpret_cast<const uint16_t *>(block.k + key * pitch); };
  for (int i = 0; i < n; i += 2)
    for (int64_t d = 0; d < dim; d += width)
      Simd::store(block.k_by_keys + i / 2 * row_pitch(dim) + d,
                  S::interleave(row(i) + d, i + 1 < n ? row(i + 1) + d : none));
}

/// Finite keys, or pairs of them, for dq.
inline void stage_keys_for_dq(const KeyTile &tile, const StagedKeys &block) {
  const int64_t dim = tile.attention->head_dim;
  if constexpr (has_tiles) {
    stage_key_tiles(block, tile.n, dim, tile.special);
  } else if constexpr (Simd::pack == 1) {
    if (!tile.special) return;
    for (int i = 0; i < tile.n; i++) {
      const float *from = block.k + i * row_pitch(dim);
      for (int64_t d = 0; d < dim; d++) block.k_by_keys[i * row_pitch(dim) + d] = from[d] - from[d] == 0 ? from[d] : 0;
    }
  } else {
    const int64_t pitch = row_pitch(operands(dim));
    const auto element = [&](int key, int64_t d) -> uint32_t {
      if (key >= tile.n) return 0;
      uint16_t x;
      __builtin_memcpy(&x, reinterpret_cast<const char *>(block.k + key * pitch) + 2 * d, sizeof x);
      return (x & 0x7f80) == 0x7f80 ? 0 : x;
    };
    if (!tile.special) return interleave_keys(block, tile.n, dim);
    for (int i = 0; i < tile.n; i += 2) {
      float *to = block.k_by_keys + i / 2 * row_pitch(dim);
      for (int64_t d = 0; d < dim; d++) {
        const uint32_t pair = element(i, d) | element(i + 1, d) << 16;
        __builtin_memcpy(to + d, &pair, sizeof pair);
      }
    }
  }
}

inline void stage_keys(KeyTile &tile) {
  const Attention &a = *tile.attention;
  const StagedKeys block(a, ScratchAllocator(behind(tile)));
  const KeyStream &s = tile.keys;
  const bool k = stage_operand_rows(s.k, s.pages, s.k.dtype, tile.first, tile.n, a.head_dim, block.k);
  const bool v = stage_operand_rows(s.v, s.pages, s.v.dtype, tile.first, tile.n, a.head_dim_v, block.v);
  tile.special = k || v;
  stage_keys_for_dq(tile, block);
  for (int64_t i = 0; i < tile.n * padded(a.head_dim); i += width) Simd::store(block.dk + i, Simd::zero());
  for (int64_t i = 0; i < tile.n * padded(a.head_dim_v); i += width) Simd::store(block.dv + i, Simd::zero());
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
