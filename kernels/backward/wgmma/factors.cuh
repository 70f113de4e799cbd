// The powers of two of f16 (backward/mma/grad_scale.cuh), where weights stay as they are and are multiplied as they are
// rounded.
#pragma once

#include "backward/mma/grad_scale.cuh"
#include "backward/wgmma/tiles.h"

namespace fa::kernels::backward_wgmma {

/// A block whose scores no factor changes.
template <class B>
struct Unscaled {
  struct Scores {
    __device__ void scale_row(int, float) {}
  };
  using Sums = typename B::Sums;
  using Rows = typename B::Rows;
  static constexpr Dtype dtype = B::dtype;
  static constexpr bool halves = B::halves;
};

/// The factors of a lane's rows of dK or of dV.
template <class B>
struct Factors : backward_mma::GradScale<Unscaled<B>> {
  /// Changes factors, and with them the sums, for terms of which `top` are the largest ones; returns whether it did.
  __device__ __forceinline__ bool fit(const typename B::Rows &top, typename B::Sums &sum) {
    const uint32_t before = this->exponents;
    typename Unscaled<B>::Scores none;
    this->apply(none, sum, top);
    return this->exponents != before;
  }
};

/// dS from its warp's scale to the least one. In two steps, as f16 holds no power of two below 2^-24 and infinities must
/// stay.
__device__ inline uint4 rescale_ds(const uint4 &halves, float ratio) {
  const float first = fmaxf(ratio, 0x1p-24f), second = fmaxf(ratio / first, 0x1p-24f);
  const auto rescaled = [=](uint32_t word) { return multiply_halves(multiply_halves(word, first), second); };
  return {rescaled(halves.x), rescaled(halves.y), rescaled(halves.z), rescaled(halves.w)};
}

}  // namespace fa::kernels::backward_wgmma
