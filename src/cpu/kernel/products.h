// The two matrix products of a tile, on natural rows of keys and values: only queries and scores are transposed.
//   S^T[key][query] = K Q^T: broadcast an operand of a key, multiply with a vector of queries
//   O^T[dim][query] = V^T P^T: broadcast an operand of a value, multiply with a vector of weights
// An operand is 32 bits: one f32, or (Simd::pack 2) a pair of bf16 that one instruction multiplies and adds up. A
// number of a more exact type is the sum of several bf16 (Simd::parts), the first of which is the number rounded:
// products are then those of parts (Henry, Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype
// For Higher-Precision Computations", 2019).
#pragma once

#include "cpu/kernel/macros.h"
#include "cpu/kernel/vector_math.h"

namespace fa::cpu::FA_ISA {
namespace {

// The products are not inlined, so that the accumulators have all registers.

/// Queries of a sub-tile: the pitch of every transposed array.
constexpr int lanes = Simd::tile_vectors * width;

/// Operands that n elements make.
constexpr int64_t operands(int64_t n) {
  return (n + Simd::pack - 1) / Simd::pack;
}

/// Whether products are those of tile_products.h.
template <class S>
concept HasTiles = requires { typename S::Tiles; };
constexpr bool has_tiles = HasTiles<Simd>;

/// Around a thread's products of tiles. No destructor does it: it would need symbols of the run-time library for
/// exceptions.
template <class S = Simd>
inline void begin_tiles() {
  if constexpr (HasTiles<S>) S::Tiles::begin();
}
template <class S = Simd>
inline void end_tiles() {
  if constexpr (HasTiles<S>) S::Tiles::end();
}

/// Rows of a tile, and its operands in a row.
constexpr int tile_rows = 16;

constexpr int64_t whole_tiles(int64_t rows) {
  return (rows + tile_rows - 1) / tile_rows;
}

/// n rows, or operands of a row, as memory has them.
constexpr int64_t stored(int64_t n) {
  return has_tiles ? whole_tiles(n) * tile_rows : n;
}

/// Floats of a row of n elements as operands, all parts.
constexpr int64_t row_floats(int64_t n) {
  return Simd::parts * stored(operands(n));
}

/// The operands of two consecutive elements: a pair, or where an operand is one element, the first.
template <class S = Simd>
inline Vec make_operands(Vec first, Vec second) {
  if constexpr (S::pack == 2) return S::pair(first, second);
  return first;
}

/// Floats from a row of operands to the next, in arrays [operands][parts][lanes].
constexpr int operand_pitch = Simd::parts * lanes;

/// Stores the parts of operands, rows of `lanes`. Of a number that is not finite, further parts are NaN.
template <class S = Simd>
[[gnu::always_inline]] inline void store_operands(float *to, Vec first, Vec second) {
  FA_UNROLL for (int part = 0; part < S::parts; part++) {
    const Vec rounded = make_operands<S>(first, second);
    S::store(to + part * lanes, rounded);
    if constexpr (S::parts > 1) {
      first = S::sub(first, S::low_of_pair(rounded));
      second = S::sub(second, S::high_of_pair(rounded));
    }
  }
}

inline Vec broadcast(const float *operand) {
  float bits;
  __builtin_memcpy(&bits, operand, sizeof bits);  // a pair may be at any even address
  return Simd::set1(bits);
}

/// Rows (keys or dims) that one call of a product works on: enough independent sums to hide the latency of an FMA.
template <int vectors>
constexpr int product_rows = vectors == 1 ? 8 : 4;

/// scores[r] = q . k[r] for `rows` keys and `vectors` vectors of queries, `dim` operands each; keeps their maxima.
template <int rows, int vectors>
[[gnu::noinline]] void gemm_qk_block(const float *k, int64_t k_row, const float *q, int64_t dim, float *scores,
                                     Vec *maxima) {
  Vec sum[rows][vectors];
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = Simd::zero();
  FA_UNROLL_2 for (int64_t d = 0; d < dim; d++) {
    Vec queries[vectors];
    FA_UNROLL for (int v = 0; v < vectors; v++) queries[v] = Simd::load(q + d * lanes + v * width);
    FA_UNROLL for (int r = 0; r < rows; r++) {
      const Vec key = broadcast(k + r * k_row + d);
      FA_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = Simd::multiply_add(key, queries[v], sum[r][v]);
    }
  }
  FA_UNROLL for (int v = 0; v < vectors; v++) {
    Vec maximum = sum[0][v];
    FA_UNROLL for (int r = 1; r < rows; r++) maximum = Simd::max(maximum, sum[r][v]);
    maxima[v] = Simd::max(maxima[v], maximum);
  }
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int v = 0; v < vectors; v++)
      Simd::store(scores + r * lanes + v * width, sum[r][v]);
}

/// out[r] = alpha out[r] + sum over keys of p[key] v[key][r], for `rows` dims and `vectors` vectors of queries; `keys`
/// counts operands.
template <int rows, int vectors>
[[gnu::noinline]] void gemm_pv_block(const float *v, int64_t v_row, const float *p, int64_t keys, float *out,
                                     const Vec *alpha) {
  Vec sum[rows][vectors];
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int i = 0; i < vectors; i++) sum[r][i] =
      Simd::mul(alpha[i], Simd::load(out + r * lanes + i * width));
  FA_UNROLL_2 for (int64_t key = 0; key < keys; key++) {
    Vec weights[vectors];
    FA_UNROLL for (int i = 0; i < vectors; i++) weights[i] = Simd::load(p + key * lanes + i * width);
    FA_UNROLL for (int r = 0; r < rows; r++) {
      const Vec value = broadcast(v + key * v_row + r);
      FA_UNROLL for (int i = 0; i < vectors; i++) sum[r][i] = Simd::multiply_add(value, weights[i], sum[r][i]);
    }
  }
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int i = 0; i < vectors; i++)
      Simd::store(out + r * lanes + i * width, sum[r][i]);
}

template <auto n>
struct Constant {
  static constexpr auto value = n;
};

/// Calls f(Constant<n>) for a run-time 1 <= n <= 4.
template <class F>
inline void with_count(int n, const F &f) {
  if (n == 1) return f(Constant<1>());
  if (n == 2) return f(Constant<2>());
  if (n == 3) return f(Constant<3>());
  return f(Constant<4>());
}

/// gemm_qk_block for any number of keys.
template <int vectors>
inline void gemm_qk(const float *k, int64_t k_row, int keys, const float *q, int64_t dim, float *scores, Vec *maxima) {
  constexpr int step = product_rows<vectors>;
  int key = 0;
  const auto next = [&](auto rows) {
    gemm_qk_block<decltype(rows)::value, vectors>(k + key * k_row, k_row, q, dim, scores + key * lanes, maxima);
    key += decltype(rows)::value;
  };
  while (key + step <= keys) next(Constant<step>());
  if constexpr (step == 8) {
    if (key + 4 <= keys) next(Constant<4>());
  }
  if (key < keys) with_count(keys - key, next);
}

/// gemm_pv_block for any head dimension.
template <int vectors>
inline void gemm_pv(const float *v, int64_t v_row, const float *p, int64_t keys, int64_t dim, float *out,
                    const Vec *alpha) {
  constexpr int step = product_rows<vectors>;
  int64_t d = 0;
  const auto next = [&](auto rows) {
    gemm_pv_block<decltype(rows)::value, vectors>(v + d, v_row, p, keys, out + d * lanes, alpha);
    d += decltype(rows)::value;
  };
  while (d + step <= dim) next(Constant<step>());
  if constexpr (step == 8) {
    if (d + 4 <= dim) next(Constant<4>());
  }
  if (d < dim) with_count(static_cast<int>(dim - d), next);
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
