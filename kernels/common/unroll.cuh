// Loops that are unrolled whole, so that the arrays which they index stay in registers.
#pragma once

namespace fa::kernels {

/// f(0) .. f(N - 1).
template <int N, class F>
__device__ __forceinline__ void unroll(F f) {
#pragma unroll
  for (int i = 0; i < N; i++) f(i);
}

}  // namespace fa::kernels
