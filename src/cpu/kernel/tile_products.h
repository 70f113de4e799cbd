// Products on an ISA with tiles, Simd::Tiles: registers of 16 rows of 16 operands. The right factor and the result are
// rows of vectors, as in products.h. Memory has whole tiles: the padding of both factors is 0, further rows
// have any contents.
#pragma once

#include "cpu/kernel/products.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Elements of the operands in a tile's row.
constexpr int tile_elements = Simd::pack * tile_rows;

/// A left factor: rows of a tile, the next tile of rows, of operands and of the next part are these floats apart.
struct TileRows {
  const float *data;
  int64_t row, next_rows, next_operands, next_part;
};

/// Rows as they are in memory: [parts][operands].
inline TileRows natural_rows(const float *data, int64_t pitch) {
  return {data, pitch, tile_rows * pitch, tile_rows, pitch / Simd::parts};
}

/// Tiles that are contiguous: [tile of operands][parts][tile of rows], of `rows` rows in whole tiles.
inline TileRows packed_tiles(const float *data, int64_t rows) {
  return {data, tile_rows, tile_rows * tile_rows, Simd::parts * rows * tile_rows, rows * tile_rows};
}

/// A right factor: rows of operands, and the parts of a row, are these floats apart.
struct TileColumns {
  const float *data;
  int64_t row, next_part;
};

/// The products of parts that are added up: all, or not those of two second parts, 2^-18 of the whole or less.
enum class PartProducts { all, large };

/// The registers of a block of rows x vectors tiles, at most 2 x 2: sums 0 to 3, left factors 4, 5, right factors 6, 7.
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
  static void load(const float *from, int64_t pitch) {
    each_sum([&](auto sum, int r, int v) {
      T::template load<decltype(sum)::value>(from + r * tile_rows * pitch + v * width, pitch);
    });
  }
  static void store(float *to, int64_t pitch) {
    each_sum([&](auto sum, int r, int v) {
      T::template store<decltype(sum)::value>(to + r * tile_rows * pitch + v * width, pitch);
    });
  }

  static void load_left(const float *a, const TileRows &left) {
    T::template load<4>(a, left.row);
    if constexpr (rows == 2) T::template load<5>(a + left.next_rows, left.row);
  }
  static void load_right(const float *b, const TileColumns &right) {
    T::template load<6>(b, right.row);
    if constexpr (vectors == 2) T::template load<7>(b + width, right.row);
  }
  static void multiply_add() {
    each_sum([](auto sum, int, int) {
      constexpr int at = decltype(sum)::value;
      T::template multiply_add<at, 4 + at / 2, 6 + at % 2>();
    });
  }

  /// Adds the product of one tile of operands: of two parts, the least products first. alongside() once for each part.
  template <int parts, PartProducts products, class Alongside>
  [[gnu::always_inline]] static void multiply_add(const float *a, const TileRows &left, const float *b,
                                                  const TileColumns &right, const Alongside &alongside) {
    if constexpr (parts == 1) {
      load_right(b, right);
      load_left(a, left);
      multiply_add();
    } else {
      static_assert(parts == 2);
      load_left(a + left.next_part, left);
      if constexpr (products == PartProducts::all) {
        load_right(b + right.next_part, right);
        multiply_add();
      }
      load_right(b, right);
      multiply_add();
      alongside();
      load_left(a, left);
      multiply_add();
      load_right(b + right.next_part, right);
      multiply_add();
    }
    alongside();
  }
};

/// Calls f(block, row, vector) for blocks that cover rows x vectors tiles.
template <class T, class F>
inline void for_each_block(int64_t rows, int64_t vectors, const F &f) {
  for (int64_t r = 0; r < rows; r += 2)
    for (int64_t v = 0; v < vectors; v += 2) {
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

/// No work of vectors next to products.
struct NoWork {
  void operator()(int64_t, int64_t) const {}
  void operator()() const {}
};

/// C = A B, or C += A B: of `rows` rows, `vectors` vectors and n operands, rows and operands in whole tiles. Vectors
/// work next to the products: before(row, vector) and after(row, vector) with blocks of C, from a tile of rows and a
/// vector on, while other blocks are multiplied; alongside() once for each tile of operands of a block and each part.
template <bool add, PartProducts products = PartProducts::all, class S = Simd, class Before = NoWork,
          class After = NoWork, class Alongside = NoWork>
inline void tile_gemm(const TileRows &a, int64_t rows, const TileColumns &b, int64_t vectors, int64_t n, float *c,
                      int64_t c_row, const Before &before = {}, const After &after = {},
                      const Alongside &alongside = {}) {
  const int64_t tiles = whole_tiles(rows);
  int64_t last_row = 0, last_vector = -1;
  before(0, 0);
  for_each_block<typename S::Tiles>(tiles, vectors, [&](auto block, int64_t r, int64_t v) {
    const float *left = a.data + r * a.next_rows, *right = b.data + v * width;
    float *sum = c + r * tile_rows * c_row + v * width;
    if constexpr (add) {
      block.load(sum, c_row);
    } else {
      block.clear();
    }
    for (int64_t i = 0; i < n; i += tile_rows, left += a.next_operands, right += tile_rows * b.row) {
      block.template multiply_add<S::parts, products>(left, a, right, b, alongside);
    }
    if (v + 2 < vectors) {
      before(r, v + 2);
    } else if (r + 2 < tiles) {
      before(r + 2, 0);
    }
    if (last_vector >= 0) after(last_row, last_vector);
    block.store(sum, c_row);
    last_row = r;
    last_vector = v;
  });
  if (last_vector >= 0) after(last_row, last_vector);
}

/// Packs the transpose of 16 pairs of rows of `dim` bf16 as tiles: row d has element d of all 32.
template <class S = Simd>
inline void transpose_pairs(const uint16_t *const *row, int64_t dim, float *to) {
  for (int64_t d = 0; d < dim; d += tile_rows, to += tile_rows * tile_rows) {
    Vec pairs[tile_rows];
    for (int p = 0; p < tile_rows; p++) {
      const uint16_t *low = row[2 * p] + d, *high = row[2 * p + 1] + d;
      uint16_t ends[2][tile_rows] = {};
      if (d + tile_rows > dim) {
        __builtin_memcpy(ends[0], low, static_cast<size_t>(2 * (dim - d)));
        __builtin_memcpy(ends[1], high, static_cast<size_t>(2 * (dim - d)));
        low = ends[0];
        high = ends[1];
      }
      pairs[p] = S::interleave(low, high);
    }
    S::transpose(pairs);
    for (int r = 0; r < tile_rows; r++) S::store(to + r * tile_rows, pairs[r]);
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
