// Where a gradient goes: of any type and stride, written or added to.
#pragma once

#include "common/params.h"
#include "common/quad.cuh"
#include "common/register_tile.cuh"

namespace fa::kernels {

/// Of shared memory, for eight rows of a warp's sums.
template <class Sums>
constexpr int staged_bytes = 8 * Sums::column_blocks * 8 * 4;

/// A gradient's rows of one head.
struct Gradient {
  char *first;
  int64_t row_stride, stride;
  int32_t dtype;
  bool adds;

  __device__ Gradient(const View &view, int32_t type, bool adds_to, int64_t batch, int64_t row, int64_t head)
      : first(view.data + batch * view.stride[0] + row * view.stride[1] + head * view.stride[2]),
        row_stride(view.stride[1]),
        stride(view.stride[3]),
        dtype(type),
        adds(adds_to) {}

  /// Writes or adds up to four neighbouring elements of a row.
  __device__ void put(int row, int column, Quad quad, int columns) const {
    char *const to = first + row * row_stride + column * stride;
    if (adds) {
      unroll<4>([&](int c) {
        if (c < columns) quad.x[c] += *reinterpret_cast<const float *>(to + c * stride);
      });
    }
    store_quad(to, stride, dtype, quad, columns);
  }

  /// Writes or adds a warp's sums, those of a lane's row r times factor(r), which is row row_of(r): rows and columns
  /// below `rows` and `columns`. Eight rows at a time pass through shared memory, so that neighbouring lanes write
  /// neighbouring columns.
  template <class Sums, class R, class F>
  __device__ void put_rows(const Sums &sum, uint32_t staged, R row_of, int rows, int columns, F factor) const {
    constexpr int dim = Sums::column_blocks * 8;
    constexpr int exchanged = 4;  // blocks of 8 columns that are exchanged, so that rows do not share banks
    const int lane = threadIdx.x % 32, row_of_eight = lane / 4;
    const uint32_t to = staged + (row_of_eight * dim + Sums::first_column(lane)) * 4;
    unroll<Sums::Rows::rows>([&](int r) {
      const int first = row_of(r) - row_of_eight;
      const float f = factor(r);
      __syncwarp();
      sum.for_each_pair_in_row(r, [&](float x, float y, int j) {
        st_shared_v2_f32(to + (j ^ row_of_eight % exchanged) * 32, x * f, y * f);
      });
      __syncwarp();
#pragma unroll 1
      for (int i = lane; i < 2 * dim; i += 32) {
        const int row = i / (dim / 4), column = i % (dim / 4) * 4;
        if (first + row >= rows || column >= columns) continue;
        const uint4 x = ld_shared_v4_b32(staged + (row * dim + (column ^ row % exchanged * 8)) * 4);
        const Quad quad = {{__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)}};
        put(first + row, column, quad, columns - column);
      }
    });
  }
};

}  // namespace fa::kernels
