// Instructions that CUDA C++ has no name for, by the PTX ISA's names, destination first.
#pragma once

#include <cstdint>

#include "common/archs.h"
#include "common/fragment.cuh"

namespace fa::kernels {

/// The architecture that this image is compiled for.
constexpr Arch this_arch = arch_of(FA_SM);

/// The address of shared memory as instructions take it.
__device__ inline uint32_t shared_address(const void *p) {
  return uint32_t(__cvta_generic_to_shared(p));
}

__device__ inline void st_shared_b32(uint32_t to, uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

__device__ inline void st_shared_f32(uint32_t to, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}

__device__ inline void st_shared_v2_f32(uint32_t to, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}

__device__ inline float2 ld_shared_v2_f32(uint32_t from) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from) : "memory");
  return x;
}

/// ld_shared_v2_f32, which the compiler does not merge with an earlier load.
__device__ inline float2 ld_volatile_shared_v2_f32(uint32_t from) {
  float2 x;
  asm volatile("ld.volatile.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from) : "memory");
  return x;
}
__device__ inline int2 ld_volatile_shared_v2_s32(uint32_t from) {
  int2 x;
  asm volatile("ld.volatile.shared.v2.s32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(from));
  return x;
}

__device__ inline void st_shared_v4_b32(uint32_t to, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

__device__ inline uint4 ld_shared_v4_b32(uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}

__device__ inline int32_t ld_acquire_gpu(const int32_t *from) {
  int32_t x;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  return x;
}

__device__ inline void st_release_gpu(int32_t *to, int32_t x) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}

/// from + count * bytes.
__device__ inline const char *mad_wide_s32(int32_t count, int32_t bytes, const char *from) {
  const char *to;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(to) : "r"(count), "r"(bytes), "l"(from));
  return to;
}

/// Reads four numbers from global memory if they are to be read.
__device__ inline void ld_global_v4_f32_if(bool read, float (&x)[4], const float *from) {
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; @p ld.global.v4.f32 {%0, %1, %2, %3}, [%4]; }"
               : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
               : "l"(from), "r"(int(read)));
}

/// Copies 16 bytes from global to shared memory, or writes zeros when they are not to be read. Both addresses are
/// multiples of 16. SM 75, which has no asynchronous copies, copies at once.
__device__ inline void cp_async_16(uint32_t to, const char *from, bool read) {
  if constexpr (this_arch.has(cp_async)) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read ? 16 : 0)
                 : "memory");
  } else {
    st_shared_v4_b32(to, read ? *reinterpret_cast<const uint4 *>(from) : uint4{});
  }
}

/// The same of 4 bytes, always read.
__device__ inline void cp_async_4(uint32_t to, const float *from) {
  if constexpr (this_arch.has(cp_async)) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
  } else {
    st_shared_f32(to, *from);
  }
}

/// Ends a group of this thread's copies.
__device__ inline void cp_async_commit_group() {
  if constexpr (this_arch.has(cp_async)) asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most `Groups` of this thread's groups are still under way.
template <int Groups>
__device__ inline void cp_async_wait_group() {
  if constexpr (this_arch.has(cp_async)) asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void ldmatrix_x4(uint32_t (&word)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(row)
               : "memory");
}

/// The way back, from registers to shared memory.
__device__ inline void stmatrix_x4(uint32_t row, const uint32_t (&word)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row), "r"(word[0]), "r"(word[1]),
               "r"(word[2]), "r"(word[3])
               : "memory");
}

/// As ldmatrix_x4, each matrix transposed.
__device__ inline void ldmatrix_x4_trans(uint32_t (&word)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(row)
               : "memory");
}

/// d = a b + c of half the depth: columns 0 .. 7 of A by rows 0 .. 7 of B.
__device__ inline void mma_m16n8k8(Accumulator &d, const uint32_t (&a)[2], uint32_t b, const Accumulator &c) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
      : "=f"(d.x[0]), "=f"(d.x[1]), "=f"(d.x[2]), "=f"(d.x[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "f"(c.x[0]), "f"(c.x[1]), "f"(c.x[2]), "f"(c.x[3]));
}

/// d = a b + c. SM 75 takes two steps of half the depth.
__device__ inline void mma_m16n8k16(Accumulator &d, const FragmentA<__half> &a, const FragmentB<__half> &b,
                                    const Accumulator &c) {
  if constexpr (this_arch.has(bf16_mma)) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d.x[0]), "=f"(d.x[1]), "=f"(d.x[2]), "=f"(d.x[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]), "f"(c.x[0]),
          "f"(c.x[1]), "f"(c.x[2]), "f"(c.x[3]));
  } else {
    Accumulator half;
    mma_m16n8k8(half, {a.word[0], a.word[1]}, b.word[0], c);
    mma_m16n8k8(d, {a.word[2], a.word[3]}, b.word[1], half);
  }
}

__device__ inline void mma_m16n8k16(Accumulator &d, const FragmentA<__nv_bfloat16> &a,
                                    const FragmentB<__nv_bfloat16> &b, const Accumulator &c) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d.x[0]), "=f"(d.x[1]), "=f"(d.x[2]), "=f"(d.x[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]), "f"(c.x[0]),
        "f"(c.x[1]), "f"(c.x[2]), "f"(c.x[3]));
}

/// 2^x, 0 for -inf.
__device__ inline float ex2_approx_ftz(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The logarithm to base 2.
__device__ inline float lg2_approx_ftz(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x, of an infinite x 0.
__device__ inline float rcp_approx_ftz(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The least and the largest x of a warp, in each of its lanes; from SM 80 on.
__device__ inline int redux_sync_min_s32(int x) {
  int y;
  asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;" : "=r"(y) : "r"(x));
  return y;
}
__device__ inline int redux_sync_max_s32(int x) {
  int y;
  asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(y) : "r"(x));
  return y;
}

/// threadIdx.x, read again at each use, so that values derived from it occupy no registers before.
__device__ inline int mov_tid_x() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

/// True in one lane of a warp, the same one each time: the compiler knows then that there is no other, and need not
/// choose one for each instruction that only a thread may execute.
__device__ inline bool elect_sync() {
  uint32_t is;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(is));
  return is != 0;
}

/// Lets the kernel that combines the splits be launched (programmatic dependent launch).
__device__ inline void griddepcontrol_launch_dependents() {
  if constexpr (this_arch.has(pdl)) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// Waits for the kernel before.
__device__ inline void griddepcontrol_wait() {
  if constexpr (this_arch.has(pdl)) asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace fa::kernels
