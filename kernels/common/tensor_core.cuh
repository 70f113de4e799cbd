// Small matrices in the registers of a warp, as mma.sync and ldmatrix lay them out (PTX ISA, "Matrix fragments for
// mma.m16n8k16"). A lane is g = lane / 4, t = lane % 4; a word holds two neighbours in the dimension that is summed.
#pragma once

#include "common/element.cuh"

namespace fa::kernels {

template <Dtype>
struct ElementOf;
template <>
struct ElementOf<f16> {
  using type = __half;
};
template <>
struct ElementOf<bf16> {
  using type = __nv_bfloat16;
};

/// 16 x 16 of a product's left side. Words: columns 2t of rows g and g + 8, columns 2t + 8 of rows g and g + 8.
template <class T>
struct Left {
  uint32_t word[4];
};

/// 16 x 8 of a product's right side. Words: rows 2t and 2t + 8 of column g.
template <class T>
struct Right {
  uint32_t word[2];
};

/// 16 x 8 of sums: columns 2t, 2t + 1 of row g, then of row g + 8.
struct Sums {
  float x[4];
};

/// d = a b + c.
__device__ inline void multiply_add(Sums &d, const Left<__half> &a, const Right<__half> &b, const Sums &c) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d.x[0]), "=f"(d.x[1]), "=f"(d.x[2]), "=f"(d.x[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]), "f"(c.x[0]),
        "f"(c.x[1]), "f"(c.x[2]), "f"(c.x[3]));
#else  // Turing multiplies 16 x 8 by 8 x 8: each half of the words in turn
  Sums half;
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
      : "=f"(half.x[0]), "=f"(half.x[1]), "=f"(half.x[2]), "=f"(half.x[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(b.word[0]), "f"(c.x[0]), "f"(c.x[1]), "f"(c.x[2]), "f"(c.x[3]));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
      : "=f"(d.x[0]), "=f"(d.x[1]), "=f"(d.x[2]), "=f"(d.x[3])
      : "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[1]), "f"(half.x[0]), "f"(half.x[1]), "f"(half.x[2]), "f"(half.x[3]));
#endif
}

__device__ inline void multiply_add(Sums &d, const Left<__nv_bfloat16> &a, const Right<__nv_bfloat16> &b,
                                    const Sums &c) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d.x[0]), "=f"(d.x[1]), "=f"(d.x[2]), "=f"(d.x[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]), "f"(c.x[0]),
        "f"(c.x[1]), "f"(c.x[2]), "f"(c.x[3]));
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_matrices(uint32_t (&word)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(row)
               : "memory");
}

/// The same, each matrix transposed.
__device__ inline void load_matrices_transposed(uint32_t (&word)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(row)
               : "memory");
}

/// Two numbers rounded to T, the first in the lower half.
__device__ inline uint32_t pack(float low, float high, __half) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&both);
}

__device__ inline uint32_t pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&both);
}

/// Sums of two neighbouring blocks of columns as the left side of the next product: no lane needs another's.
template <class T>
__device__ inline void convert(Left<T> &a, const Sums &left, const Sums &right) {
  a.word[0] = pack(left.x[0], left.x[1], T());
  a.word[1] = pack(left.x[2], left.x[3], T());
  a.word[2] = pack(right.x[0], right.x[1], T());
  a.word[3] = pack(right.x[2], right.x[3], T());
}

/// 2^x, 0 for -inf.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace fa::kernels
