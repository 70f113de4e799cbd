// Shared by both attention kernels of the tensor core tests: mbarriers, TMA, exp2. One head at a time, D = 64, f16.
#pragma once

#include <cuda.h>
#include <cuda_fp16.h>
#include <stdint.h>

// Faults that a mutant of the kernel seeds where FAULT names them (../mutants); the kernel itself has none.
#ifndef FAULT
#define FAULT(number) false
#define FAULT_PARAMETER
#endif

constexpr int head_size = 64;
constexpr int tile_bytes = 64 * head_size * 2;  // 64 rows, in lines of 128 bytes, swizzled

struct Sizes {
  int keys, rows;
  float scale;  // times log2(e)
};

__device__ inline uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}\n" ::
          "r"(barrier),
      "r"(parity)
      : "memory");
}
/// 64 rows of a head, from a tensor of (64, rows, heads).
__device__ inline void load_tile(uint32_t to, const CUtensorMap *map, uint32_t barrier, int row, int head) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(0), "r"(row), "r"(head)
      : "memory");
}
__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline uint32_t halves(float low, float high) {
  __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<uint32_t *>(&pair);
}
