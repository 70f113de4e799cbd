// Copies from global to shared memory in chunks of 16 bytes: asynchronous ones where the SM has them.
#pragma once

#include <cstdint>

namespace fa::kernels {

/// The address of shared memory as instructions take it.
__device__ inline uint32_t shared_address(const void *p) {
  return uint32_t(__cvta_generic_to_shared(p));
}

__device__ inline void store_chunk(uint32_t to, uint4 chunk) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(chunk.x), "r"(chunk.y), "r"(chunk.z), "r"(chunk.w)
               : "memory");
}

__device__ inline uint4 load_chunk(uint32_t from) {
  uint4 chunk;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(chunk.x), "=r"(chunk.y), "=r"(chunk.z), "=r"(chunk.w)
               : "r"(from)
               : "memory");
  return chunk;
}

/// Copies a chunk, or writes zeros when it is not to be read. Both addresses are multiples of 16.
__device__ inline void copy_chunk(uint32_t to, const char *from, bool read) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read ? 16 : 0)
               : "memory");
#else
  store_chunk(to, read ? *reinterpret_cast<const uint4 *>(from) : uint4{});
#endif
}

/// Ends a group of this thread's copies.
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most `Groups` of this thread's groups are still under way.
template <int Groups>
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
#endif
}

}  // namespace fa::kernels
