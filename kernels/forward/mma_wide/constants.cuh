// Branches on a number that choose registers, which only constants can index.
#pragma once

#include <type_traits>

namespace fa::kernels::mma_wide {

/// f of each of the constants 0 .. N - 1.
template <int N, int I = 0, class F>
__device__ __forceinline__ void for_constants(const F &f) {
  if constexpr (I < N) {
    f(std::integral_constant<int, I>());
    for_constants<N, I + 1>(f);
  }
}

/// At the end of a branch for a constant: no two branches end alike, or the compiler would merge them, and with them
/// the registers that they choose, into memory.
template <int I>
__device__ __forceinline__ void keep_apart() {
  asm volatile("" ::"n"(I));
}

}  // namespace fa::kernels::mma_wide
