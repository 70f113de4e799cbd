// From partial softmaxes to results: merging splits, the sink, the division, the stores.
#pragma once

#include "cpu/kernel/convert.h"
#include "cpu/kernel/hadamard.h"

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

/// to[i] = a to[i] + b from[i]; NaN and infinities stay whatever their weight.
inline void blend_rows(float *to, float a, const float *from, float b, int64_t n) {
  int64_t i = 0;
  if (any_special(to, n) || any_special(from, n)) {
    for (; i < n; i++) {
      const bool x = any_special(to + i, 1), y = any_special(from + i, 1);
      to[i] = x || y ? (x ? to[i] : 0) + (y ? from[i] : 0) : a * to[i] + b * from[i];
    }
  }
  for (; i + width <= n; i += width)
    Simd::store(to + i, Simd::fma(Simd::set1(a), Simd::load(to + i), Simd::mul(Simd::set1(b), Simd::load(from + i))));
  for (; i < n; i++) to[i] = a * to[i] + b * from[i];
}

/// Merges `next` into `total`, row by row. One of the two factors is exactly 1. A part without keys changes no bit of
/// the other.
inline void merge(const QueryTile &tile, const Partial &total, const Partial &next) {
  const int64_t dim = tile.attention->head_dim_v;
  for (int r = 0; r < tile.rows; r++) {
    const auto empty = [&](const Partial &p) { return p.sum[r] == 0 && !any_special(p.values + r * dim, dim); };
    if (empty(next)) continue;
    if (empty(total)) {
      total.max[r] = next.max[r];
      total.sum[r] = next.sum[r];
      for (int64_t d = 0; d < dim; d++) total.values[r * dim + d] = next.values[r * dim + d];
      continue;
    }
    const float now = larger(total.max[r], next.max[r]);
    const float finite = now == -infinity ? 0.0f : now;
    const float a = exp2_of((total.max[r] - finite) * log2_e), b = exp2_of((next.max[r] - finite) * log2_e);
    blend_rows(total.values + r * dim, a, next.values + r * dim, b, dim);
    total.sum[r] = a * total.sum[r] + b * next.sum[r];
    total.max[r] = now;
  }
}

/// Adds the sink to a row's softmax, stores its lse, and returns the factor that normalises its values.
inline float finalize_row(const QueryRow &row, float max, float sum) {
  float factor = 1;
  if (row.sink != -infinity) {
    const float now = larger(max, row.sink);
    factor = exp2_of((max - now) * log2_e);
    sum = sum * factor + exp2_of((row.sink - now) * log2_e);
    max = now;
  }
  if (row.lse != nullptr) *row.lse = sum == 0 ? -infinity : static_cast<float>(max + __builtin_log(sum));
  return sum == 0 ? 0.0f : factor / sum;  // sum is 0 exactly when no key is left: out = 0 then
}

inline void finalize(const QueryTile &tile, const Partial &partial) {
  const Attention &a = *tile.attention;
  for (int r = 0; r < tile.rows; r++) {
    float *values = partial.values + r * a.head_dim_v;
    float factor = finalize_row(tile.row[r], partial.max[r], partial.sum[r]);
    if (any_special(values, a.head_dim_v)) {
      const bool no_key = partial.sum[r] == 0;  // scores of -inf alone leave none, whatever the values are
      for (int64_t d = 0; d < a.head_dim_v; d++)
        values[d] = no_key ? 0 : any_special(values + d, 1) ? values[d] + (factor - factor) : values[d] * factor;
      factor = 1;
    }
    if (a.hadamard_v > 1) {
      hadamard(values, a.head_dim_v, a.hadamard_v, factor);
      factor = 1;
    }
    store_row(tile.row[r].out, tile.out_elem, a.out_dtype, values, factor, a.head_dim_v);
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
