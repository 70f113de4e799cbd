// Four neighbouring columns of a row, which a thread writes at once where they lie so.
#pragma once

#include "common/fragment.cuh"
#include "common/numbers.cuh"
#include "common/unroll.cuh"

namespace fa::kernels {

struct alignas(16) Quad {
  float x[4] = {};

  __device__ bool finite() const { return fmaf(x[0], 0.f, fmaf(x[1], 0.f, fmaf(x[2], 0.f, x[3] * 0.f))) == 0; }
};

/// Writes the first `columns` elements at `to`, of a type and a stride.
__device__ inline void store_quad(char *to, int64_t stride, int32_t dtype, const Quad &quad, int columns) {
  const int element = dtype == f32 ? 4 : 2;
  if (columns < 4 || stride != element || reinterpret_cast<uintptr_t>(to) % (4 * element) != 0) {
    unroll<4>([&](int c) {
      if (c < columns) store_element(to + c * stride, dtype, quad.x[c]);
    });
  } else if (dtype == f32) {
    *reinterpret_cast<float4 *>(to) = {quad.x[0], quad.x[1], quad.x[2], quad.x[3]};
  } else if (dtype == f16) {
    *reinterpret_cast<uint2 *>(to) = {pack<__half>(quad.x[0], quad.x[1]), pack<__half>(quad.x[2], quad.x[3])};
  } else {
    *reinterpret_cast<uint2 *>(to) = {pack<__nv_bfloat16>(quad.x[0], quad.x[1]),
                                      pack<__nv_bfloat16>(quad.x[2], quad.x[3])};
  }
}

}  // namespace fa::kernels
