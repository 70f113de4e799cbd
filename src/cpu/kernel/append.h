// Rows of new tokens in another type, or rotated, or both: by way of f32, in which each number is rounded once.
#pragma once

#include "cpu/kernel/convert.h"
#include "cpu/token_rows.h"

namespace fa::cpu::FA_ISA {
namespace {

/// A row of numbers in f32.
struct alignas(64) RowBuffer {
  float x[FA_MAX_HEAD_DIM];
};

/// The pairs (row[j], row[pairs + j]).
inline void rotate_halves(float *row, const float *cos, const float *sin, int64_t pairs) {
  float *const low = row, *const high = row + pairs;
  int64_t j = 0;
  for (; j + width <= pairs; j += width) {
    const Vec x = Simd::load(low + j), y = Simd::load(high + j), c = Simd::load(cos + j), s = Simd::load(sin + j);
    Simd::store(low + j, Simd::sub(Simd::mul(x, c), Simd::mul(y, s)));
    Simd::store(high + j, Simd::fma(x, s, Simd::mul(y, c)));
  }
  for (; j < pairs; j++) {
    const float x = low[j], y = high[j];
    low[j] = x * cos[j] - y * sin[j];
    high[j] = x * sin[j] + y * cos[j];
  }
}

/// The pairs (row[2 j], row[2 j + 1]).
inline void rotate_neighbours(float *__restrict row, const float *__restrict cos, const float *__restrict sin,
                              int64_t pairs) {
  for (int64_t j = 0; j < pairs; j++) {
    const float x = row[2 * j], y = row[2 * j + 1];
    row[2 * j] = x * cos[j] - y * sin[j];
    row[2 * j + 1] = x * sin[j] + y * cos[j];
  }
}

/// The pairs of a row, if there are any.
inline void rotate_row(float *row, const float *cos, const float *sin, const TokenRotation &rotation) {
  if (rotation.interleaved) {
    rotate_neighbours(row, cos, sin, rotation.pairs);
  } else {
    rotate_halves(row, cos, sin, rotation.pairs);
  }
}

/// Rows of any length, rounded to the type of their place.
inline void convert_rows(const TokenRows &rows) {
  RowBuffer row;
  for (int64_t head = 0; head < rows.heads; head++) {
    const char *const from = rows.from + head * rows.from_head;
    char *const to = rows.to + head * rows.to_head;
    for (int64_t d = 0; d < rows.dim; d += FA_MAX_HEAD_DIM) {
      const int64_t n = smaller<int64_t>(rows.dim - d, FA_MAX_HEAD_DIM);
      load_row(row.x, from + d * rows.from_elem, rows.from_elem, rows.from_dtype, n);
      store_row(to + d * rows.to_elem, rows.to_elem, rows.to_dtype, row.x, 1, n);
    }
  }
}

/// Rows of 2 * pairs elements, rotated. `to` may be `from`.
inline void rotate_rows(const TokenRows &rows, const TokenRotation &rotation) {
  RowBuffer row, cos, sin;
  load_row(cos.x, rotation.cos, rotation.cos_elem, rotation.cos_dtype, rotation.pairs);
  load_row(sin.x, rotation.sin, rotation.sin_elem, rotation.sin_dtype, rotation.pairs);
  for (int64_t head = 0; head < rows.heads; head++) {
    load_row(row.x, rows.from + head * rows.from_head, rows.from_elem, rows.from_dtype, rows.dim);
    rotate_row(row.x, cos.x, sin.x, rotation);
    store_row(rows.to + head * rows.to_head, rows.to_elem, rows.to_dtype, row.x, 1, rows.dim);
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
