// Rows times an orthonormal Hadamard matrix, block by block: y = H x / sqrt(n), its own inverse.
//
// H is Sylvester's matrix, as sums and differences of elements 1, 2, 4, ... apart. These are the same in the same order
// for each width of vectors, and so are the bits.
#pragma once

#include "cpu/kernel/vectors.h"
#include "cpu/tile.h"

namespace fa::cpu::FA_ISA {
namespace {

/// The sums and differences of lanes `apart` apart.
template <int apart, size_t... i>
inline Floats butterflies(Floats x, std::index_sequence<i...>) {
  const Floats others = __builtin_shufflevector(x, x, (static_cast<int>(i) ^ apart)...);
  constexpr Floats signs = {((static_cast<int>(i) & apart) != 0 ? -1.0F : 1.0F)...};
  return others + x * signs;  // exact products: fused or not, the bits are the same
}

/// Those of lanes 1, 2, 4, ... apart, below n.
template <int apart = 1>
inline Floats butterflies_below(Floats x, int64_t n) {
  if constexpr (apart < width) {
    if (apart < n) return butterflies_below<2 * apart>(butterflies<apart>(x, LaneNumbers()), n);
  }
  return x;
}

/// Those of a block that is smaller than a vector.
inline void rotate_small_block(float *x, int64_t n) {
  for (int64_t apart = 1; apart < n; apart *= 2)
    for (int64_t i = 0; i < n; i++) {
      if ((i & apart) != 0) continue;
      const float a = x[i], b = x[i + apart];
      x[i] = a + b, x[i + apart] = a - b;
    }
}

/// Rotates blocks of n elements, a power of two that divides dim, of a row times `factor`. It comes first: sums stay
/// within sqrt(n) times the largest number.
inline void hadamard(float *row, int64_t dim, int64_t n, float factor = 1) {
  factor *= static_cast<float>(1 / __builtin_sqrt(static_cast<double>(n)));
  int64_t d = 0;
  for (; d + width <= dim; d += width) {
    const Floats x = load_floats(row + d) * factor, y = butterflies_below(x, n);
    __builtin_memcpy(row + d, &y, sizeof y);
  }
  for (; d < dim; d += n) {  // blocks of less than a vector
    for (int64_t i = 0; i < n; i++) row[d + i] *= factor;
    rotate_small_block(row + d, n);
  }
  for (int64_t apart = width; apart < n; apart *= 2)
    for (int64_t block = 0; block < dim; block += 2 * apart)
      for (float *x = row + block, *const end = x + apart; x < end; x += width) {
        const Vec a = Simd::load(x), b = Simd::load(x + apart);
        Simd::store(x, Simd::add(a, b));
        Simd::store(x + apart, Simd::sub(a, b));
      }
}

/// A row of queries as f32, rotated as keys are.
inline void load_query(float *to, const char *from, const QueryTile &tile) {
  const Attention &a = *tile.attention;
  load_row(to, from, tile.q_elem, a.q_dtype, a.head_dim);
  if (a.hadamard_k > 1) hadamard(to, a.head_dim_k(), a.hadamard_k);
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
