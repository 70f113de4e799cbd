// The two products of products.h on an ISA with tiles, Simd::Tiles: registers of 16 rows of 16 operands. A tile of
// keys, or of transposed values, times a tile of queries, or of weights. Rows in memory are whole tiles, padded with
// zeros.
//   S^T[key][query] = K Q^T          a key's row is its own, 16 operands at a time
//   O^T[dim][query] += V^T P^T       values are transposed when a block is staged
#pragma once

#include "cpu/kernel/products.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Keys that a tile of weights has, in pairs.
constexpr int tile_keys = Simd::pack * tile_rows;

/// The registers of a block of 2 x 2 tiles: sums 0 to 3, a row of them after the other; left operands 4, 5; right 6, 7.
template <int rows, int vectors, class T>
struct TileBlock {
  template <class F>
  [[gnu::always_inline]] static void each_sum(const F &f) {
    f(Constant<0>(), 0, 0);
    if constexpr (vectors == 2) f(Constant<1>(), 0, 1);
    if constexpr (rows == 2) f(Constant<2>(), 1, 0);
    if constexpr (rows == 2 && vectors == 2) f(Constant<3>(), 1, 1);
  }

  static void clear() {
    each_sum([](auto sum, int, int) { T::template zero<decltype(sum)::value>(); });
  }
  static void load(const float *from) {
    each_sum([&](auto sum, int r, int v) {
      T::template load<decltype(sum)::value>(from + (r * lanes + v) * tile_rows, lanes);
    });
  }
  static void store(float *to) {
    each_sum([&](auto sum, int r, int v) {
      T::template store<decltype(sum)::value>(to + (r * lanes + v) * tile_rows, lanes);
    });
  }

  /// Adds the product of tiles at a, a + a_step and those at b, of whole vectors.
  static void multiply_add(const float *a, int64_t a_pitch, int64_t a_step, const float *b) {
    T::template load<6>(b, lanes);
    T::template load<4>(a, a_pitch);
    T::template multiply_add<0, 4, 6>();
    if constexpr (vectors == 2) {
      T::template load<7>(b + width, lanes);
      T::template multiply_add<1, 4, 7>();
    }
    if constexpr (rows == 2) {
      T::template load<5>(a + a_step, a_pitch);
      T::template multiply_add<2, 5, 6>();
      if constexpr (vectors == 2) T::template multiply_add<3, 5, 7>();
    }
  }
};

/// Calls f(block, row, vector) for blocks of at most 2 x 2 tiles, which cover rows x vectors of them.
template <class T, class F>
inline void for_each_block(int64_t rows, int vectors, const F &f) {
  for (int64_t r = 0; r < rows; r += 2)
    for (int v = 0; v < vectors; v += 2) {
      const bool two_rows = r + 2 <= rows, two_vectors = v + 2 <= vectors;
      if (two_rows && two_vectors) {
        f(TileBlock<2, 2, T>(), r, v);
      } else if (two_rows) {
        f(TileBlock<2, 1, T>(), r, v);
      } else if (two_vectors) {
        f(TileBlock<1, 2, T>(), r, v);
      } else {
        f(TileBlock<1, 1, T>(), r, v);
      }
    }
}

/// Scores of `keys` keys, and of whatever follows them up to the end of a tile, for `vectors` vectors of queries: `dim`
/// operands each, in whole tiles.
template <class S = Simd>
inline void tile_qk(const float *k, int64_t k_row, int keys, const float *q, int vectors, int64_t dim, float *scores) {
  for_each_block<typename S::Tiles>(whole_tiles(keys), vectors, [&](auto block, int64_t r, int v) {
    block.clear();
    for (int64_t d = 0; d < dim; d += tile_rows)
      block.multiply_add(k + r * tile_rows * k_row + d, k_row, tile_rows * k_row, q + d * lanes + v * width);
    block.store(scores + r * tile_rows * lanes + v * width);
  });
}

/// out += values times weights: `keys` keys in whole tiles of pairs, `dim` dims in whole tiles. Values are tiles
/// [tile of keys][tile of dims].
template <class S = Simd>
inline void tile_pv(const float *values, int64_t values_row, const float *weights, int keys, int64_t dim, int vectors,
                    float *out) {
  constexpr int tile = tile_rows * tile_rows;
  for_each_block<typename S::Tiles>(whole_tiles(dim), vectors, [&](auto block, int64_t r, int v) {
    float *to = out + r * tile_rows * lanes + v * width;
    block.load(to);
    for (int64_t t = 0; t * tile_keys < keys; t++)
      block.multiply_add(values + t * values_row + r * tile, tile_rows, tile,
                         weights + t * tile_rows * lanes + v * width);
    block.store(to);
  });
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
