// Rows and columns: queries of a sub-tile are transposed on their way in, its results on their way out.
#pragma once

#include "cpu/kernel/convert.h"
#include "cpu/kernel/finish.h"
#include "cpu/kernel/products.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Up to tile_vectors vectors of queries, transposed.
struct SubTile {
  const QueryTile *tile;  // of one head
  float *q;               // [operands][parts][lanes]
  float *out;             // [dim][lanes]; of ByQueries [lanes][dim] until finish()
  float *max, *sum;       // [lanes]; the maximum of the kernel's scores
  int32_t *low, *high, *position;
  float *position_overflow, *slope;
  int first_row;
  int vectors;
  int32_t low_of[Simd::tile_vectors], high_of[Simd::tile_vectors];  // some lane of the vector attends [low_of, high_of)
  int32_t full_low[Simd::tile_vectors], full_high[Simd::tile_vectors];  // every lane attends [full_low, full_high)
};

inline int64_t larger_dim(const Attention &a) {
  return larger(a.head_dim, a.head_dim_v);
}

/// Elements d .. d + W - 1 of W rows, as W columns.
template <class S = Simd>
inline void load_columns(const float *const *row, int64_t d, Vec *to) {
  if constexpr (requires { S::load_columns(row, d, to); }) {
    S::load_columns(row, d, to);
  } else {
    for (int i = 0; i < width; i++) to[i] = Simd::load(row[i] + d);
    Simd::transpose(to);
  }
}

/// W rows to columns of operands; a row is padded with zeros to the end of a vector.
inline void rows_to_columns(const float *const *rows, int64_t dim, float *columns) {
  for (int64_t d = 0; d < dim; d += width) {
    Vec block[width];
    load_columns(rows, d, block);
    const int n = static_cast<int>(smaller<int64_t>(width, dim - d));
    for (int i = 0; i < n; i += Simd::pack)
      store_operands(columns + (d + i) / Simd::pack * operand_pitch, block[i], block[i + Simd::pack - 1]);
  }
}

/// Rows of queries to columns, W at a time. Those that are rotated, or not f32 in whole vectors, pass
/// through `buffer`.
inline void transpose_queries(const QueryTile &tile, SubTile &t, float *buffer) {
  const Attention &a = *tile.attention;
  const int64_t dim = a.head_dim, pitch = larger_dim(a) + width;
  const bool in_place = a.q_dtype == FA_F32 && tile.q_elem == 4 && dim % width == 0 && a.hadamard_k == 1;
  for (int v = 0; v < t.vectors; v++) {
    const float *rows[width];
    for (int i = 0; i < width; i++) {
      const QueryRow &row = tile.row[smaller(t.first_row + v * width + i, tile.rows - 1)];
      if (in_place) {
        rows[i] = reinterpret_cast<const float *>(row.q);
        continue;
      }
      rows[i] = buffer + i * pitch;
      load_query(buffer + i * pitch, row.q, tile);
      for (int64_t d = dim; d % width != 0; d++) buffer[i * pitch + d] = 0;
    }
    rows_to_columns(rows, dim, t.q + v * width);
    for (int64_t d = Simd::parts * operands(dim); d < row_floats(dim); d++)
      Simd::store(t.q + d * lanes + v * width, Simd::zero());
  }
}

/// Columns of results back to rows, not normalised.
inline void store_partial(const QueryTile &tile, const SubTile &t, float score_scale, const Partial &partial) {
  const int64_t dim = tile.attention->head_dim_v;
  const int rows = smaller(t.vectors * width, tile.rows - t.first_row);
  for (int i = 0; i < rows; i++) {
    partial.max[t.first_row + i] = t.max[i] * score_scale;
    partial.sum[t.first_row + i] = t.sum[i];
  }
  for (int v = 0; v < t.vectors; v++) {
    const int n = smaller(width, rows - v * width);
    float *to = partial.values + (t.first_row + v * width) * dim;
    int64_t d = 0;
    for (; d + width <= dim; d += width) {
      Vec block[width];
      for (int i = 0; i < width; i++) block[i] = Simd::load(t.out + (d + i) * lanes + v * width);
      Simd::transpose(block);
      for (int i = 0; i < n; i++) Simd::store(to + i * dim + d, block[i]);
    }
    for (; d < dim; d++)
      for (int i = 0; i < n; i++) to[i * dim + d] = t.out[d * lanes + v * width + i];
  }
}

/// W rows of final results: `factor` times columns, to rows.
template <fa_dtype dtype>
inline void store_rows(const float *columns, Vec factor, int64_t dim, char *const *row, int rows, Vec &nonfinite) {
  constexpr int64_t bytes = dtype_bytes(dtype);
  int64_t d = 0;
  for (; d + width <= dim; d += width) {
    Vec block[width];
    for (int i = 0; i < width; i++) {
      block[i] = Simd::mul(Simd::load(columns + (d + i) * lanes), factor);
      nonfinite = Simd::fma(block[i], Simd::zero(), nonfinite);
    }
    Simd::transpose(block);
    for (int i = 0; i < rows; i++) store_vector<dtype>(row[i] + d * bytes, block[i]);
  }
  for (; d < dim; d++) {
    alignas(64) float column[width];
    const Vec x = Simd::mul(Simd::load(columns + d * lanes), factor);
    nonfinite = Simd::fma(x, Simd::zero(), nonfinite);
    Simd::store(column, x);
    for (int i = 0; i < rows; i++) store_element<dtype>(row[i] + d * bytes, column[i]);
  }
}

/// Finalizes the rows of a sub-tile: sinks, division, out and lse. False when some element of out is not finite.
inline bool store_results(const QueryTile &tile, const SubTile &t, float score_scale) {
  const Attention &a = *tile.attention;
  Vec nonfinite = Simd::zero();
  for (int v = 0; v < t.vectors; v++) {
    const int first = t.first_row + v * width, rows = smaller(width, tile.rows - first);
    char *row[width];
    alignas(64) float factor[width] = {};
    for (int i = 0; i < rows; i++) {
      row[i] = tile.row[first + i].out;
      factor[i] = finalize_row(tile.row[first + i], t.max[v * width + i] * score_scale, t.sum[v * width + i]);
    }
    const float *columns = t.out + v * width;
    const Vec factors = Simd::load(factor);
    with_compute_type(a.out_dtype, [&](auto type) {
      store_rows<decltype(type)::dtype>(columns, factors, a.head_dim_v, row, rows, nonfinite);
    });
  }
  alignas(64) float found[width];
  Simd::store(found, nonfinite);
  float sum = 0;
  for (int i = 0; i < width; i++) sum += found[i];
  return sum == 0;
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
