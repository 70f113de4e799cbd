// Element types in registers: CUDA's types and conversions, and single elements of any type as floats, where a vector
// is not worth it or strides allow none.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "common/params.h"

namespace fa::kernels {

template <Dtype>
struct CudaTypeOf;
template <>
struct CudaTypeOf<f32> {
  using type = float;
};
template <>
struct CudaTypeOf<f16> {
  using type = __half;
};
template <>
struct CudaTypeOf<bf16> {
  using type = __nv_bfloat16;
};

/// CUDA's type of an element type.
template <Dtype D>
using CudaType = typename CudaTypeOf<D>::type;

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(__half x) {
  return __half2float(x);
}
__device__ inline float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

/// x rounded to nearest even.
template <class T>
__device__ T rounded(float x) = delete;
template <>
__device__ inline float rounded(float x) {
  return x;
}
template <>
__device__ inline __half rounded(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 rounded(float x) {
  return __float2bfloat16_rn(x);
}

/// f of the type as a constant; dtype is one of these.
template <Dtype... D, class F>
__device__ __forceinline__ void with_dtype(Dtypes<D...>, int32_t dtype, F f) {
  constexpr Dtype all[] = {D...}, last = all[sizeof...(D) - 1];
  (void)(((D == last || dtype == D) && (f(std::integral_constant<Dtype, D>()), true)) || ...);
}

/// The number at p.
__device__ inline float load_element(const char *p, int32_t dtype) {
  float x;
  with_dtype(CacheTypes(), dtype, [&](auto type) { x = to_float(*reinterpret_cast<const CudaType<type()> *>(p)); });
  return x;
}

/// Writes x, rounded, at p.
__device__ inline void store_element(char *p, int32_t dtype, float x) {
  with_dtype(ComputeTypes(), dtype, [=](auto type) {
    using T = CudaType<type()>;
    *reinterpret_cast<T *>(p) = rounded<T>(x);
  });
}

}  // namespace fa::kernels
