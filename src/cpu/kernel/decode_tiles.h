// Attention of the few rows of a head, on an ISA with tiles. Scores and weights are those of prefill.h, which
// transposes values, once for many rows; this kernel transposes weights, which have fewer elements:
//   O = O a + P V
#pragma once

#include "cpu/kernel/prefill.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Transposes the tiles of a segment's weights, `n` operands of `vectors` vectors of rows: rows of operands.
template <class S = Simd>
inline void transpose_weights(float *weights, int64_t n, int vectors) {
  for (int64_t k = 0; k < n; k += tile_rows)
    for (int v = 0; v < vectors; v++)
      for (int part = 0; part < S::parts; part++) {
        float *tile = weights + k * operand_pitch + part * lanes + v * width;
        Vec row[tile_rows];
        for (int i = 0; i < tile_rows; i++) row[i] = S::load(tile + i * operand_pitch);
        S::transpose(row);
        for (int i = 0; i < tile_rows; i++) S::store(tile + i * operand_pitch, row[i]);
      }
}

/// O has a row for each query; values are in pairs of keys, and their parts are rows (stage_value_rows).
template <class S>
struct ByQueries {
  static constexpr int block_keys = S::parts == 1 ? prefill_keys : 128;  // blocks of all heads fit in the second cache

  static void clear(const SubTile &t, int64_t dim) {
    for (int64_t i = 0; i < t.vectors * width * stored(dim); i += width) S::store(t.out + i, S::zero());
  }

  static Rows stage(const QueryTile &tile, int64_t key, int n, int64_t dim, float *buffer, float *rows) {
    stage_value_rows<S>(tile, key, n, dim, buffer, rows);
    return {buffer, S::parts * stored(dim)};
  }

  template <class Alongside>
  static void add(const QueryTile &tile, const Rows &values, const Block &block, const Alongside &alongside) {
    const SubTile &t = *block.t;
    const int64_t dim = stored(tile.attention->head_dim_v);
    rescale(t, block, dim);
    for (int i = 0; i < block.count; i++) {
      const Segment &g = block.segments[i];
      const int vectors = g.last - g.first;
      const int64_t first = operands(g.begin), n = stored(operands(g.end - g.begin));
      float *weights = block.scores + first * operand_pitch + g.first * width;
      pad_weights(weights, g.end - g.begin, vectors);
      transpose_weights(weights, n, vectors);
      tile_gemm<true, PartProducts::large>({weights, operand_pitch, tile_rows, tile_rows * operand_pitch, lanes},
                                           vectors * width, {values.data + first * values.pitch, values.pitch, dim},
                                           dim / width, n, t.out + g.first * width * dim, dim, NoWork(), NoWork(),
                                           alongside);
    }
  }

  /// O = O a, where a row's maximum has changed.
  static void rescale(const SubTile &t, const Block &block, int64_t dim) {
    for (int v = 0; v < t.vectors; v++) {
      if (!block.changed[v]) continue;
      alignas(64) float factor[width];
      S::store(factor, block.alpha[v]);
      for (int i = 0; i < width; i++) {
        if (factor[i] == 1) continue;
        float *row = t.out + (v * width + i) * dim;
        const Vec alpha = S::set1(factor[i]);
        for (int64_t d = 0; d < dim; d += width) S::store(row + d, S::mul(S::load(row + d), alpha));
      }
    }
  }

  /// Columns of queries, as results are stored from, in the values' memory.
  static void finish(SubTile &t, int64_t dim, float *columns) {
    const int64_t pitch = stored(dim);
    for (int v = 0; v < t.vectors; v++)
      for (int64_t d = 0; d < pitch; d += width) {
        Vec block[width];
        for (int i = 0; i < width; i++) block[i] = S::load(t.out + (v * width + i) * pitch + d);
        S::transpose(block);
        for (int i = 0; i < width; i++) S::store(columns + (d + i) * lanes + v * width, block[i]);
      }
    t.out = columns;
  }
};

inline size_t decode_tiles_scratch_bytes(const Attention &a, int rows) {
  return scratch_bytes_of(a, smaller(rows, tile_heads<Simd>));
}

inline bool decode_tiles_supports(const Attention &a) {
  return !a.batch_invariant;
}

template <class S>
constexpr Microkernel decode_tiles_microkernel = {
    .tile_rows = lanes,
    .max_rows = lanes,
    .many_tiles = false,
    .max_heads = tile_heads<S>,
    .max_rows_of_heads = tile_heads<S> * lanes,
    .any_stride = true,
    .finite_scores_only = Simd::parts > 1,  // Inf is not the sum of its parts
    .supports = decode_tiles_supports,
    .scratch_bytes = decode_tiles_scratch_bytes,
    .compute_partial = prefill_partial<ByQueries<S>>,
    .compute_output = prefill_output<ByQueries<S>>,
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
