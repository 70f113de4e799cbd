// The five products of the backward pass: C = A B or C += A B, where an operand of A is broadcast and B has vectors of
// its rows. Operands are those of products.h.
#pragma once

#include "cpu/kernel/products.h"

namespace fa::cpu::FA_ISA {
namespace {

/// A rows x n matrix in memory: operand (r, i) is data[r * pitch + i], or transposed data[i * pitch + r].
struct Broadcast {
  const float *data;
  int64_t pitch;
};

struct Vectors {
  const float *data;
  int64_t pitch;
};

/// The next block of rows, prefetched between the multiplications: tiles are larger than the L1 cache, and rows are far
/// apart.
struct PrefetchTargets {
  const float *a, *c;
};

/// Not inlined, so that the accumulators have all registers.
template <int rows, int vectors, bool transposed, bool add>
[[gnu::noinline]] void gemm_block(const float *a, int64_t a_pitch, const float *b, int64_t b_pitch, int64_t n, float *c,
                                  int64_t c_pitch, PrefetchTargets next) {
  constexpr int line = 64 / sizeof(float);
  Vec sum[rows][vectors];
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
      add ? Simd::load(c + r * c_pitch + v * width) : Simd::zero();
  const auto step = [&](int64_t i) __attribute__((always_inline)) {
    Vec column[vectors];
    FA_UNROLL for (int v = 0; v < vectors; v++) column[v] = Simd::load(b + i * b_pitch + v * width);
    FA_UNROLL for (int r = 0; r < rows; r++) {
      const Vec factor = broadcast(transposed ? a + i * a_pitch + r : a + r * a_pitch + i);
      FA_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = Simd::multiply_add(factor, column[v], sum[r][v]);
    }
  };
  int64_t i = 0;
  for (int64_t r = 0; i + line <= n; r++) {
    if (!transposed) {
      FA_UNROLL for (int row = 0; row < rows; row++) __builtin_prefetch(next.a + row * a_pitch + i);
    }
    if (r < rows) {
      FA_UNROLL for (int at = 0; at < vectors * width; at += line) __builtin_prefetch(next.c + r * c_pitch + at);
    }
    FA_UNROLL_2 for (const int64_t end = i + line; i < end; i++) step(i);
  }
  for (; i < n; i++) step(i);
  asm("" : "+r"(c));  // or GCC computes addresses twice as far ahead as registers reach
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int v = 0; v < vectors; v++)
      Simd::store(c + r * c_pitch + v * width, sum[r][v]);
}

/// For any number of rows, and up to tile_vectors vectors.
template <int vectors, bool transposed, bool add>
inline void gemm_rows(Broadcast a, int64_t rows, Vectors b, int64_t n, float *c, int64_t c_pitch) {
  constexpr int step = product_rows<vectors>;
  int64_t row = 0;
  const auto next = [&](auto count) {
    constexpr int block = decltype(count)::value;
    const float *from = a.data + row * (transposed ? 1 : a.pitch);
    float *to = c + row * c_pitch;
    const int64_t ahead = row + 2 * block <= rows ? block : 0;
    gemm_block<block, vectors, transposed, add>(from, a.pitch, b.data, b.pitch, n, to, c_pitch,
                                                {from + ahead * a.pitch, to + ahead * c_pitch});
    row += block;
  };
  while (row + step <= rows) next(Constant<step>());
  if constexpr (step == 8) {
    if (row + 4 <= rows) next(Constant<4>());
  }
  if (row < rows) with_count(static_cast<int>(rows - row), next);
}

/// For any number of vectors, distributed evenly: a product of a single vector waits for its operands.
template <bool transposed, bool add>
inline void gemm(Broadcast a, int64_t rows, Vectors b, int64_t vectors, int64_t n, float *c, int64_t c_pitch) {
  int64_t parts = (vectors + Simd::tile_vectors - 1) / Simd::tile_vectors;
  for (int64_t v = 0; v < vectors; parts--) {
    const int share = static_cast<int>((vectors - v + parts - 1) / parts);
    with_count(share, [&](auto count) {
      if constexpr (decltype(count)::value <= Simd::tile_vectors)
        gemm_rows<decltype(count)::value, transposed, add>(a, rows, {b.data + v * width, b.pitch}, n, c + v * width,
                                                           c_pitch);
    });
    v += share;
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
