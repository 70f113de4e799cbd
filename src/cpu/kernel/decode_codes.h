// The two products of decode with quantised keys or values, for groups of few rows. Codes are widened in registers, and
// factors of a whole key are not multiplied with each of its elements: a key's scale is a factor of its
// scores, a value's of its weights.
#pragma once

#include "cpu/kernel/codes.h"
#include "cpu/kernel/decode_products.h"

namespace fa::cpu::FA_ISA {
namespace {

/// The scales, or the zeros, of a block's n keys, of which those past the last repeat it.
inline void load_factors(const Factors &factors, int head, const Pages &pages, int64_t key, int n, float *to) {
  const int64_t offset = head * factors.head;
  with_compute_type(factors.dtype, [&](auto type) {
    constexpr fa_dtype dtype = decltype(type)::dtype;
    if (evenly_spaced(pages, key, n)) {
      const char *from = row_of(factors, pages, key) + offset;
      if (dtype == FA_F32 && factors.row == dtype_bytes(dtype)) {
        __builtin_memcpy(to, from, sizeof(float) * static_cast<size_t>(n));
        return;
      }
      for (int j = 0; j < n; j++) to[j] = load_element<dtype>(from + j * factors.row);
    } else {
      for (int j = 0; j < n; j++) to[j] = load_element<dtype>(row_of(factors, pages, key + j) + offset);
    }
  });
  for (int j = n; j < decode_keys + width; j++) to[j] = to[n - 1];
  for (int j = 0; j < decode_keys; j += width) Simd::store(to + j, Simd::finite_or_nan(Simd::load(to + j)));
}

/// Scales, or zeros, of the keys of a block. Vectors may pass its end.
struct alignas(64) KeyFactors {
  float of[decode_keys + width];
};

/// Each of the first lanes of a vector, `rows` times.
template <int rows, size_t... i>
inline Floats repeated_lanes(Floats x, std::index_sequence<i...>) {
  return __builtin_shufflevector(x, x, static_cast<int>(i) / rows...);
}

/// x[key][row] times factor[key], for the pairs of n keys.
template <int rows>
inline void multiply_pairs(float *x, const float *factor, int n) {
  for (int i = 0; i < n * rows; i += width) {
    const Vec of_keys = Simd::load(factor + i / rows);
    const Vec of_pairs = as_vec(repeated_lanes<rows>(as_floats(of_keys), LaneNumbers()));
    Simd::store(x + i, Simd::mul(Simd::load(x + i), of_pairs));
  }
}

/// Sums kept in registers: as many as leave some for a weight and codes.
constexpr int decode_codes_sums = 8;

/// Vectors of a row that are widened together.
template <int max_vectors, fa_dtype dtype>
constexpr int widened_vectors =
    code_kind(dtype) == CodeKind::block ? static_cast<int>(block_elements) / width : max_vectors;

/// As decode_qk: scores[key][row] = q[row] . (code - zero)[key]; zero may be null.
template <int rows, fa_dtype dtype>
[[gnu::noinline]] void decode_codes_qk(const HeadRows &block, const RowGroup &g, int64_t dim, const float *zero,
                                       int64_t lines, Prefetcher &next, float *scores) {
  constexpr int keys = width / rows;
  Prefetcher ahead = next;  // in registers
  for (int j = 0; j < block.n; j += keys) {
    ahead.prefetch_each(keys, lines);
    const char *k[keys];
    FA_UNROLL for (int i = 0; i < keys; i++) k[i] = block[smaller(j + i, block.n - 1)];
    Vec sum[width];
    FA_UNROLL for (int i = 0; i < width; i++) sum[i] = Simd::zero();
    const auto widen = [&](int i, int64_t d, auto *code) {
      constexpr int vectors = sizeof *code / sizeof(Vec);
      load_codes<dtype, vectors>(k[i], d, *code);
      if (zero == nullptr) return;
      const Vec from_all = Simd::set1(zero[smaller(j + i, block.n - 1)]);
      FA_UNROLL for (int v = 0; v < vectors; v++)(*code)[v] = Simd::sub((*code)[v], from_all);
    };
    for_each_vector<widened_vectors<2, dtype>>(dim, [&](auto count, int64_t d) {
      constexpr int vectors = decltype(count)::value;
      const auto query = [&](int r, int v) { return Simd::load(g.q[r] + d + v * width); };
      if constexpr (rows > keys && vectors <= 2) {  // the codes fit into registers, and the queries do not
        Vec code[keys][vectors];
        FA_UNROLL for (int i = 0; i < keys; i++) widen(i, d, &code[i]);
        FA_UNROLL for (int v = 0; v < vectors; v++) FA_UNROLL for (int r = 0; r < rows; r++) {
          Vec of_row = query(r, v);
          Simd::pin(of_row);  // GCC would load it again for every key
          FA_UNROLL for (int i = 0; i < keys; i++) sum[i * rows + r] = Simd::fma(code[i][v], of_row, sum[i * rows + r]);
        }
      } else {
        FA_UNROLL for (int i = 0; i < keys; i++) {
          Vec code[vectors];
          widen(i, d, &code);
          FA_UNROLL for (int v = 0; v < vectors; v++) FA_UNROLL for (int r = 0; r < rows; r++) sum[i * rows + r] =
              Simd::fma(code[v], query(r, v), sum[i * rows + r]);
        }
      }
    });
    Simd::store(scores + j * rows, Simd::sums(sum));
  }
  next = ahead;
}

/// As decode_pv, with (code - zero) for v; p has the scales as factors, and zero may be null.
template <int rows, int vectors, fa_dtype dtype>
[[gnu::noinline]] void decode_codes_pv(const HeadRows &block, const float *p, int64_t d, const float *zero,
                                       const Vec *alpha, float *const *values, int64_t lines, Prefetcher &next) {
  Prefetcher ahead = next;  // in registers
  Vec sum[rows][vectors];
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int i = 0; i < vectors; i++) sum[r][i] =
      Simd::mul(alpha[r], Simd::load(values[r] + d + i * width));
  for_each_key(block.n, lines, ahead, [&](int j) {
    Vec code[vectors];
    load_codes<dtype, vectors>(block[j], d, code);
    if (zero != nullptr) FA_UNROLL for (int i = 0; i < vectors; i++) code[i] = Simd::sub(code[i], Simd::set1(zero[j]));
    FA_UNROLL for (int r = 0; r < rows; r++) {
      const Vec weight = Simd::set1(p[j * rows + r]);
      FA_UNROLL for (int i = 0; i < vectors; i++) sum[r][i] = Simd::fma(weight, code[i], sum[r][i]);
    }
  });
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int i = 0; i < vectors; i++)
      Simd::store(values[r] + d + i * width, sum[r][i]);
  next = ahead;
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
