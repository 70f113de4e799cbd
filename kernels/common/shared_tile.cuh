// Where the elements of a tile lie in shared memory, so that neither rows nor columns of 8 x 8 matrices share banks.
#pragma once

#include "common/ptx.cuh"

namespace fa::kernels {

/// Rows x columns of 16-bit elements, in panels of 64 columns (or 32): rows of 128 (or 64) bytes, whose chunks of 16
/// bytes are exchanged by xor with the row's number. Tiles start at multiples of 128 bytes.
template <int Rows, int Columns>
struct SharedTile {
  static_assert(Rows % 16 == 0 && Columns % 32 == 0);
  static constexpr int rows = Rows;
  static constexpr int panel_columns = Columns % 64 == 0 ? 64 : 32;
  static constexpr int panels = Columns / panel_columns;
  static constexpr int row_bytes = 2 * panel_columns;
  static constexpr int row_chunks = panel_columns / 8;
  static constexpr int panel_bytes = Rows * row_bytes;
  static constexpr int bytes = Rows * Columns * 2;

  __device__ static int swizzle(int row) { return panel_columns == 64 ? row % 8 : row / 2 % 4; }

  /// Where a chunk lies: 8 columns of a row.
  __device__ static uint32_t offset(int row, int chunk) {
    return chunk / row_chunks * panel_bytes + row * row_bytes + (chunk % row_chunks ^ swizzle(row)) * 16;
  }

  /// A lane's offset from a tile's address for matrices_at, when it is to read rows `row` + 16 i and chunks `chunk` + 2
  /// k.
  __device__ static uint32_t lane_offset(int row, int chunk) { return row * row_bytes + (chunk ^ swizzle(row)) * 16; }

  /// The address of a lane's row of matrices in block i of 16 rows and block k of 16 columns.
  __device__ static uint32_t matrices_at(uint32_t lane_address, int i, int k) {
    constexpr int blocks = panel_columns / 16;
    return (lane_address ^ (k % blocks * 32)) + k / blocks * panel_bytes + i * 16 * row_bytes;
  }
};

/// Where a lane's row is within 16 x 16 elements that become a FragmentA, or (transposed) two FragmentB of rows x 8
/// columns.
__device__ inline int lane_row(int lane) {
  return lane % 16;
}
__device__ inline int lane_chunk(int lane) {
  return lane / 16;
}

/// The same for elements whose rows become the columns of two FragmentB.
__device__ inline int lane_row_of_columns(int lane) {
  return lane % 8 + lane / 16 * 8;
}
__device__ inline int lane_chunk_of_columns(int lane) {
  return lane / 8 % 2;
}

}  // namespace fa::kernels
