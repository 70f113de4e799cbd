// Small matrices in the registers of a warp, as mma.sync and ldmatrix lay them out (PTX ISA, "Matrix fragments for
// mma.m16n8k16"). A lane is g = lane / 4, t = lane % 4; a word holds two neighbours in the dimension that is summed.
#pragma once

#include "common/element.cuh"

namespace fa::kernels {

/// 16 x 16 of A. Words: columns 2t of rows g and g + 8, columns 2t + 8 of rows g and g + 8.
template <class T>
struct FragmentA {
  uint32_t word[4];
};

/// 16 x 8 of B. Words: rows 2t and 2t + 8 of column g.
template <class T>
struct FragmentB {
  uint32_t word[2];
};

/// 16 x 8 of C and D: columns 2t, 2t + 1 of row g, then of row g + 8.
struct Accumulator {
  float x[4];
};

/// Two numbers rounded to T, the first in the lower half.
template <class T>
__device__ uint32_t pack(float low, float high) = delete;
template <>
__device__ inline uint32_t pack<__half>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&both);
}
template <>
__device__ inline uint32_t pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&both);
}

/// Both halves of a word of f16 times x.
__device__ inline uint32_t multiply_halves(uint32_t word, float x) {
  const __half2 product = __hmul2(*reinterpret_cast<const __half2 *>(&word), __float2half2_rn(x));
  return *reinterpret_cast<const uint32_t *>(&product);
}

}  // namespace fa::kernels
