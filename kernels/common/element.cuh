// Single elements of any type as floats: for what is not worth a vector, and for strides that allow none.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/params.h"

namespace fa::kernels {

/// The number at p.
__device__ inline float load_element(const char *p, int32_t dtype) {
  if (dtype == f32) return *reinterpret_cast<const float *>(p);
  if (dtype == f16) return __half2float(*reinterpret_cast<const __half *>(p));
  return __bfloat162float(*reinterpret_cast<const __nv_bfloat16 *>(p));
}

/// Writes x, rounded to nearest even, at p.
__device__ inline void store_element(char *p, int32_t dtype, float x) {
  if (dtype == f32) {
    *reinterpret_cast<float *>(p) = x;
  } else if (dtype == f16) {
    *reinterpret_cast<__half *>(p) = __float2half_rn(x);
  } else {
    *reinterpret_cast<__nv_bfloat16 *>(p) = __float2bfloat16_rn(x);
  }
}

}  // namespace fa::kernels
