// From sums to gradients, by way of the shared memory that the block's tiles were in.
#pragma once

#include "backward/wgmma/block.cuh"
#include "collective/gradient_output.cuh"

namespace fa::kernels::backward_wgmma {

/// Writes the sums of a warp's rows, each times its factor: those of the block that are below `rows`.
template <class B, class F>
__device__ inline void store_sums(const SharedMemory<B> &shared, const Gradient &gradient, const typename B::Sums &sum,
                                  int rows, int columns, F factor) {
  constexpr int warps = 4 * consumers;
  static_assert(2 * B::OwnTile::bytes >= warps * staged_bytes<typename B::Sums>);
  const uint32_t staged = shared.own(0) + (threadIdx.x / 32 - 4) * staged_bytes<typename B::Sums>;
  gradient.put_rows(sum, staged, [](int r) { return B::row_of(threadIdx.x, r); }, rows, columns, factor);
}

}  // namespace fa::kernels::backward_wgmma
