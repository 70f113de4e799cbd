// Barriers of threads and of copies: mbarrier objects in shared memory, named barriers, and the fences between
// accesses to shared memory by threads and by copies and products (PTX ISA, "Async proxy").
#pragma once

#include <cstdint>

namespace fa::kernels {

/// Makes an mbarrier at a shared address, whose phases end after `arrivals` and all bytes that were expected.
__device__ inline void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Shows initialised barriers to copies; by the thread that made them, before the others learn of it.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives, and lets the phase wait for this number of copied bytes.
__device__ inline void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// Waits for the end of the phase of this parity: 0 for the first. The phase before the first has parity 1.
__device__ inline void mbarrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred over;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n@!over bra again;\n}" ::
          "r"(barrier),
      "r"(parity)
      : "memory");
}

/// Waits at a named barrier until `threads` threads, in whole warps, have come there.
__device__ inline void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// As bar_sync; whether x holds for any of the threads.
__device__ inline bool bar_red_or(int barrier, int threads, bool x) {
  uint32_t any;
  asm volatile("{\n.reg .pred p, q;\nsetp.ne.u32 p, %3, 0;\nbar.red.or.pred q, %1, %2, p;\nselp.u32 %0, 1, 0, q;\n}"
               : "=r"(any)
               : "r"(barrier), "r"(threads), "r"(uint32_t(x))
               : "memory");
  return any != 0;
}

/// Counts as one that has come to a named barrier, and goes on.
__device__ inline void bar_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// Orders this thread's accesses to shared memory before copies and products that begin behind a barrier after this.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace fa::kernels
