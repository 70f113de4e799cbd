// The two products of decode, straight from memory: lanes are elements of a row, and each key's row is read once for
// all rows of a group.
#pragma once

#include "cpu/kernel/convert.h"
#include "cpu/kernel/group.h"
#include "cpu/kernel/macros.h"
#include "cpu/kernel/prefetch.h"
#include "cpu/kernel/products.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Sums kept in registers.
constexpr int decode_sums = Simd::width < 8 ? 8 : Simd::width;

/// Calls step(Constant<n>, d) for the vectors of a row from d = 0 on, `max_vectors` at a time, then 2, then 1.
template <int max_vectors, class SoftmaxStep>
inline void for_each_vector(int64_t dim, const SoftmaxStep &step) {
  int64_t d = 0;
  for (; d + max_vectors * width <= dim; d += max_vectors * width) step(Constant<max_vectors>(), d);
  if constexpr (max_vectors > 2)
    for (; d + 2 * width <= dim; d += 2 * width) step(Constant<2>(), d);
  if constexpr (max_vectors > 1)
    if (d < dim) step(Constant<1>(), d);
}

/// scores[key][row] = q[row] . k[key]; prefetches `lines` cache lines a key.
template <int rows, fa_dtype dtype>
[[gnu::noinline]] void decode_qk(const HeadRows &block, const RowGroup &g, int64_t dim, int64_t lines, Prefetcher &next,
                                 float *scores) {
  constexpr int keys = width / rows;  // of one vector of sums
  constexpr int64_t bytes = dtype_bytes(dtype);
  Prefetcher ahead = next;  // in registers
  for (int j = 0; j < block.n; j += keys) {
    FA_UNROLL for (int i = 0; i < keys; i++) ahead.prefetch(lines);
    const char *k[keys];
    FA_UNROLL for (int i = 0; i < keys; i++) k[i] = block[smaller(j + i, block.n - 1)];
    Vec sum[width];
    FA_UNROLL for (int i = 0; i < width; i++) sum[i] = Simd::zero();
    for_each_vector<2>(dim, [&](auto count, int64_t d) {
      constexpr int vectors = decltype(count)::value;
      Vec element[keys][vectors];
      FA_UNROLL for (int i = 0; i < keys; i++) load_pairs<dtype, vectors>(k[i] + d * bytes, element[i]);
      FA_UNROLL for (int v = 0; v < vectors; v++) FA_UNROLL for (int r = 0; r < rows; r++) {
        Vec query = Simd::load(g.q[r] + d + v * width);
        Simd::pin(query);  // GCC would load it again for every key
        FA_UNROLL for (int i = 0; i < keys; i++) sum[i * rows + r] = Simd::fma(element[i][v], query, sum[i * rows + r]);
      }
    });
    Simd::store(scores + j * rows, Simd::sums(sum));
  }
  next = ahead;
}

/// Keys of the second product between two prefetches.
constexpr int pv_keys = 4;

/// Calls step(j) for keys 0 .. n - 1; prefetches `lines` cache lines for every pv_keys of them.
template <class Step>
[[gnu::always_inline]] inline void for_each_key(int n, int64_t lines, Prefetcher &ahead, const Step &step) {
  int j = 0;
  for (; j + pv_keys <= n; j += pv_keys) {
    ahead.prefetch(lines);
    FA_UNROLL for (int i = 0; i < pv_keys; i++) step(j + i);
  }
  for (; j < n; j++) step(j);
}

/// values[row] = alpha[row] values[row] + sum over keys of p[key][row] v[key], for `vectors` vectors of the head
/// dimension from d on; prefetches `lines` cache lines for every pv_keys keys.
template <int rows, int vectors, fa_dtype dtype>
[[gnu::noinline]] void decode_pv(const HeadRows &block, const float *p, int64_t d, const Vec *alpha,
                                 float *const *values, int64_t lines, Prefetcher &next) {
  constexpr int64_t bytes = dtype_bytes(dtype);
  Prefetcher ahead = next;  // in registers
  Vec sum[rows][vectors];
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int i = 0; i < vectors; i++) sum[r][i] =
      Simd::mul(alpha[r], Simd::load(values[r] + d + i * width));
  for_each_key(block.n, lines, ahead, [&](int j) {
    Vec element[vectors];
    load_pairs<dtype, vectors>(block[j] + d * bytes, element);
    FA_UNROLL for (int r = 0; r < rows; r++) {
      const Vec weight = Simd::set1(p[j * rows + r]);
      FA_UNROLL for (int i = 0; i < vectors; i++) sum[r][i] = Simd::fma(weight, element[i], sum[r][i]);
    }
  });
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int i = 0; i < vectors; i++)
      Simd::store(values[r] + d + i * width, sum[r][i]);
  next = ahead;
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
