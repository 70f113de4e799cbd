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

/// The four of them rounded to T, as they lie in memory.
template <class T>
__device__ inline auto pack(const Quad &quad) {
  if constexpr (sizeof(T) == 4) {
    return float4{quad.x[0], quad.x[1], quad.x[2], quad.x[3]};
  } else {
    return uint2{pack<T>(quad.x[0], quad.x[1]), pack<T>(quad.x[2], quad.x[3])};
  }
}

/// Writes the first `columns` elements at `to`, of a type and a stride.
__device__ inline void store_quad(char *to, int64_t stride, int32_t dtype, const Quad &quad, int columns) {
  const int element = element_bytes(ComputeTypes(), dtype);
  if (columns < 4 || stride != element || reinterpret_cast<uintptr_t>(to) % (4 * element) != 0) {
    unroll<4>([&](int c) {
      if (c < columns) store_element(to + c * stride, dtype, quad.x[c]);
    });
  } else {
    with_dtype(ComputeTypes(), dtype, [&](auto type) {
      const auto packed = pack<CudaType<type()>>(quad);
      *reinterpret_cast<decltype(pack<CudaType<type()>>(quad)) *>(to) = packed;
    });
  }
}

}  // namespace fa::kernels
