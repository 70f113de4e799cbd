// Where a gradient goes: of any type and stride, written or added to.
#pragma once

#include "common/params.h"
#include "common/quad.cuh"

namespace fa::kernels {

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
};

}  // namespace fa::kernels
