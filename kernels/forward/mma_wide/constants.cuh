// Branches on a number that choose registers, which only constants can index.
#pragma once

#include <type_traits>
#include <utility>

namespace fa::kernels::mma_wide {

/// f of each of the constants 0 .. N - 1.
template <int N, class F>
__device__ __forceinline__ void for_constants(F f) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

/// At the end of a branch for a constant: no two branches end alike, or the compiler would merge them, and with them
/// the registers that they choose, into memory.
template <int I>
__device__ __forceinline__ void keep_apart() {
  asm volatile("" ::"n"(I));
}

}  // namespace fa::kernels::mma_wide
