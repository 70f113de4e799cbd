// Tiles in the registers of a warp: blocks of mma's fragments, and a number for each of a lane's rows. The loops over
// blocks are here, unrolled once, so that kernels are written in whole tiles.
//
// A lane shares each of its rows with three others. Row r of a lane is row 8 r + first_row(lane) of the tile, and
// column c, which is 0, 1, 8, 9, 16, ..., is column c + first_column(lane).
#pragma once

#include "common/ptx.cuh"
#include "common/unroll.cuh"

namespace fa::kernels {

/// A number for each of a lane's rows.
template <int Rows>
struct RowVector {
  static constexpr int rows = Rows;
  float x[Rows];

  __device__ __forceinline__ float &operator[](int row) { return x[row]; }
  __device__ __forceinline__ float operator[](int row) const { return x[row]; }

  __device__ __forceinline__ void fill(float value) {
    unroll<Rows>([&](int r) { x[r] = value; });
  }
};

/// 16 columns of RowBlocks blocks of 16 rows as A.
template <class T, int RowBlocks>
struct FragmentsA {
  FragmentA<T> block[RowBlocks];
};

/// RowBlocks x ColumnBlocks of 16 x 8 sums.
template <int RowBlocks, int ColumnBlocks>
struct AccumulatorTile {
  static constexpr int row_blocks = RowBlocks, column_blocks = ColumnBlocks;
  static constexpr int rows = 2 * RowBlocks;  // of a lane
  using Rows = RowVector<rows>;

  Accumulator block[RowBlocks][ColumnBlocks];

  __device__ static int first_row(int lane) { return lane / 4; }
  __device__ static int first_column(int lane) { return lane % 4 * 2; }

  __device__ __forceinline__ float &at(int row, int column) {
    return block[row / 2][column / 8].x[row % 2 * 2 + column % 8];
  }
  __device__ __forceinline__ float at(int row, int column) const {
    return block[row / 2][column / 8].x[row % 2 * 2 + column % 8];
  }

  __device__ __forceinline__ void clear() {
    unroll<RowBlocks>([&](int i) { unroll<ColumnBlocks>([&](int j) { block[i][j] = {}; }); });
  }

  /// f(number, row, column), block by block.
  template <class F>
  __device__ __forceinline__ void for_each(F f) {
    unroll<RowBlocks>([&](int i) {
      unroll<ColumnBlocks>(
          [&](int j) { unroll<4>([&](int e) { f(block[i][j].x[e], 2 * i + e / 2, 8 * j + e % 2); }); });
    });
  }
  template <class F>
  __device__ __forceinline__ void for_each(F f) const {
    unroll<RowBlocks>([&](int i) {
      unroll<ColumnBlocks>(
          [&](int j) { unroll<4>([&](int e) { f(block[i][j].x[e], 2 * i + e / 2, 8 * j + e % 2); }); });
    });
  }

  /// f(number, row, column), a block of columns of all rows after the other.
  template <class F>
  __device__ __forceinline__ void for_each_by_columns(F f) {
    unroll<ColumnBlocks>(
        [&](int j) { unroll<rows>([&](int r) { unroll<2>([&](int e) { f(at(r, 8 * j + e), r, 8 * j + e); }); }); });
  }

  /// f(number, column) for a row.
  template <class F>
  __device__ __forceinline__ void for_each_in_row(int row, F f) {
    unroll<ColumnBlocks>([&](int j) { unroll<2>([&](int e) { f(at(row, 8 * j + e), 8 * j + e); }); });
  }
  template <class F>
  __device__ __forceinline__ void for_each_in_row(int row, F f) const {
    unroll<ColumnBlocks>([&](int j) { unroll<2>([&](int e) { f(at(row, 8 * j + e), 8 * j + e); }); });
  }

  /// f(first number, second number, j) for a row: the two of block j of 8 columns.
  template <class F>
  __device__ __forceinline__ void for_each_pair_in_row(int row, F f) const {
    unroll<ColumnBlocks>([&](int j) { f(at(row, 8 * j), at(row, 8 * j + 1), j); });
  }

  /// The maxima of this lane's part of each row; max_over_lanes<4> (lanes.cuh) gives the row's.
  __device__ __forceinline__ Rows row_max() const {
    Rows top;
    unroll<rows>([&](int r) {
      top[r] = at(r, 0);
      for_each_in_row(r, [&](float x, int) { top[r] = fmaxf(top[r], x); });
    });
    return top;
  }

  /// The sums of this lane's part of each row.
  __device__ __forceinline__ Rows row_sums() const {
    Rows sum;
    unroll<rows>([&](int r) { sum[r] = at(r, 0) + at(r, 1); });
    for_each([&](float x, int r, int column) {
      if (column > 1) sum[r] += x;
    });
    return sum;
  }

  __device__ __forceinline__ void add_row_sums(Rows &sum) const {
    for_each([&](float x, int r, int) { sum[r] += x; });
  }

  __device__ __forceinline__ void scale_row(int row, float factor) {
    for_each_in_row(row, [&](float &x, int) { x *= factor; });
  }

  __device__ __forceinline__ void scale_rows(const Rows &factor) {
    unroll<rows>([&](int r) { scale_row(r, factor[r]); });
  }

  /// Columns 16 k .. 16 k + 15, rounded to T, as A of the next product: no lane needs another's.
  template <class T>
  __device__ __forceinline__ FragmentsA<T, RowBlocks> columns_as_a(int k) const {
    FragmentsA<T, RowBlocks> a;
    unroll<RowBlocks>([&](int i) {
      const Accumulator &left = block[i][2 * k], &right = block[i][2 * k + 1];
      a.block[i] = {pack<T>(left.x[0], left.x[1]), pack<T>(left.x[2], left.x[3]), pack<T>(right.x[0], right.x[1]),
                    pack<T>(right.x[2], right.x[3])};
    });
    return a;
  }

  /// Adds A B to columns 16 j .. 16 j + 15; b: the words of two FragmentB.
  template <class T>
  __device__ __forceinline__ void multiply_add(int j, const FragmentsA<T, RowBlocks> &a, const uint32_t (&b)[4]) {
    unroll<RowBlocks>([&](int i) {
      mma_m16n8k16(block[i][2 * j], a.block[i], {b[0], b[1]}, block[i][2 * j]);
      mma_m16n8k16(block[i][2 * j + 1], a.block[i], {b[2], b[3]}, block[i][2 * j + 1]);
    });
  }
};

}  // namespace fa::kernels
