// The columns of a gradient that a block sums: of two rows a thread, in two parts, every eighth of each.
#pragma once

#include "backward/simt/pairs.cuh"

namespace fa::kernels::backward_simt {

constexpr int part_columns = part / lanes;

struct Sums {
  float x[columns / part][thread_rows][part_columns] = {};

  /// Adds sum_e weight(row, e) from[e], elements of a part of rows in shared memory: to the rows of this thread.
  template <class F>
  __device__ void add(int at, const float (*from)[part + 1], int n, F weight) {
    const int row = threadIdx.x / lanes * thread_rows, lane = threadIdx.x % lanes;
#pragma unroll 2
    for (int e = 0; e < n; e++) {
      unroll<thread_rows>([&](int i) {
        const float w = weight(row + i, e);
        unroll<part_columns>([&](int c) { x[at][i][c] += w * from[e][lane + c * lanes]; });
      });
    }
  }

  /// Writes row i of this thread, times a factor, from the block's first column on.
  __device__ void store(int i, char *row, int64_t stride, int32_t dtype, bool add, int dim, float factor) const {
    const int first = blockIdx.y * columns + threadIdx.x % lanes;
    unroll<columns / part>([&](int at) {
      unroll<part_columns>([&](int c) {
        const int d = first + at * part + c * lanes;
        if (d < dim) put(row + d * stride, dtype, add, x[at][i][c] * factor);
      });
    });
  }
};

/// Calls f(at, first) for the parts of this block's columns that a row of dim elements has.
template <class F>
__device__ inline void each_part(int dim, F f) {
  unroll<columns / part>([&](int at) {
    const int first = blockIdx.y * columns + at * part;
    if (first < dim) f(at, first);
  });
}

}  // namespace fa::kernels::backward_simt
