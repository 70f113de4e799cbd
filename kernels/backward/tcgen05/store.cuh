// From sums in tensor memory to gradients, by way of the shared memory that the stages of Q were in.
#pragma once

#include "backward/tcgen05/block.cuh"
#include "collective/gradient_output.cuh"

namespace fa::kernels::backward_tcgen05 {

/// Writes a warp's sums of keys, each times a factor: those of the block that are below `rows`. any: there are sums,
/// else 0. By a warpgroup of scores.
template <class B>
__device__ inline void store_sums(const SharedMemory<B> &shared, const Gradient &gradient, uint32_t sums, bool any,
                                  int rows, int columns, float factor) {
  using Sums = AccumulatorTile<1, B::dim / 8>;
  constexpr int warps = 8;
  static_assert(B::stages * B::StreamedTile::bytes >= warps * staged_bytes<Sums>);
  const int warp = threadIdx.x / 32;
  const uint32_t staged = shared.q(0) + (warp - score_warp) * staged_bytes<Sums>;
#pragma unroll 1
  for (int first = 0; first < 32; first += 16) {
    Sums sum;
    sum.clear();
    if (any) {
      __syncwarp();  // stores by some lanes may have diverged the warp
      RowWords<B> x;
      load_accumulators<B>(x, of_warp(sums, first));
      tcgen05_wait_ld(x);
      sum = as_accumulators<B, B::dim / 8>(x);
    }
    gradient.put_rows(
        sum, staged, [&](int r) { return warp % 4 * 32 + first + 8 * r + Sums::first_row(lane()); }, min(B::rows, rows),
        columns, [=](int) { return factor; });
  }
}

}  // namespace fa::kernels::backward_tcgen05
