// From unfinished softmaxes to results: folding splits together, the sink, the division, the stores.
#pragma once

#include "cpu/kernel/convert.h"

namespace fa::cpu::FA_ISA {
namespace {

inline float lane0(Vec x) {
  alignas(64) float all[width];
  Simd::store(all, x);
  return all[0];
}

/// 2^x of one number, by the kernels' own exp2.
inline float exp2_of(float x) {
  return lane0(exp2(Simd::set1(x)));
}

/// to[i] = a to[i] + b from[i]
inline void blend_rows(float *to, float a, const float *from, float b, int64_t n) {
  int64_t i = 0;
  for (; i + width <= n; i += width)
    Simd::store(to + i, Simd::fma(Simd::set1(a), Simd::load(to + i), Simd::mul(Simd::set1(b), Simd::load(from + i))));
  for (; i < n; i++) to[i] = a * to[i] + b * from[i];
}

/// Folds one row of `next` into `total`. Of two maxima one scales by exactly 1.
inline void merge(const Tile &tile, const Partial &total, const Partial &next) {
  const int64_t dim = tile.attention->head_dim_v;
  for (int r = 0; r < tile.rows; r++) {
    if (next.max[r] == -infinity && next.sum[r] == 0) continue;
    const float now = larger(total.max[r], next.max[r]);
    const float finite = now == -infinity ? 0.0f : now;
    const float a = exp2_of(total.max[r] - finite), b = exp2_of(next.max[r] - finite);
    blend_rows(total.values + r * dim, a, next.values + r * dim, b, dim);
    total.sum[r] = a * total.sum[r] + b * next.sum[r];
    total.max[r] = now;
  }
}

/// Adds the sink to a row's softmax, stores its lse, and returns the factor that makes its sum-weighted values results.
inline float finish_row(const Row &row, float max, float sum) {
  constexpr double ln_2 = 0.693147180559945309;
  float factor = 1;
  if (row.sink != -infinity) {
    const float sink = row.sink * log2_e, now = larger(max, sink);
    factor = exp2_of(max - now);
    sum = sum * factor + exp2_of(sink - now);
    max = now;
  }
  if (row.lse != nullptr) *row.lse = sum == 0 ? -infinity : static_cast<float>(max * ln_2 + __builtin_log(sum));
  return sum == 0 ? 0.0f : factor / sum;  // sum is 0 exactly when no key is left: out = 0 then
}

inline void finish(const Tile &tile, const Partial &partial) {
  const Attention &a = *tile.attention;
  for (int r = 0; r < tile.rows; r++) {
    const float factor = finish_row(tile.row[r], partial.max[r], partial.sum[r]);
    store_row(tile.row[r].out, tile.out_elem, a.out_dtype, partial.values + r * a.head_dim_v, factor, a.head_dim_v);
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
