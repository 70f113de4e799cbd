// The rotation of fa.h, "ROTATED KEYS AND VALUES", by its matrix.
#pragma once

#include <fa.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace reference {

/// The elements of a block of a row that is rotated; 1: none is.
inline int64_t hadamard_block(bool flagged, int64_t dim) {
  int64_t n = 1;
  while (flagged && dim % (2 * n) == 0) n *= 2;
  return n;
}
inline int64_t hadamard_block_of_k(const fa_desc &desc) {
  return hadamard_block(desc.flags & FA_FLAG_HADAMARD_K, desc.head_dim - desc.head_dim_rope);
}
inline int64_t hadamard_block_of_v(const fa_desc &desc) {
  return hadamard_block(desc.flags & FA_FLAG_HADAMARD_V, desc.head_dim_v != 0 ? desc.head_dim_v : desc.head_dim);
}

/// Whether an element of the matrix is negative.
inline bool is_negative(int64_t i, int64_t j) {
  return std::popcount(uint64_t(i & j)) % 2 != 0;
}

/// Rotates the blocks of n elements of a row. of_sizes: with the matrix of absolute values.
template <class Real>
void rotate(Real *row, int64_t dim, int64_t n, bool of_sizes = false) {
  if (n == 1) return;
  std::vector<Real> block(static_cast<size_t>(n));
  for (int64_t begin = 0; begin < dim; begin += n) {
    for (int64_t i = 0; i < n; ++i) {
      Real sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += is_negative(i, j) && !of_sizes ? -row[begin + j] : row[begin + j];
      block[size_t(i)] = sum / std::sqrt(Real(n));
    }
    for (int64_t i = 0; i < n; ++i) row[begin + i] = block[size_t(i)];
  }
}

/// The steps in which a sum of n elements is made, and the rounding of its factor and of their product.
inline double hadamard_steps(int64_t n) {
  return n == 1 ? 0 : std::bit_width(uint64_t(n)) + 1;
}

}  // namespace reference
