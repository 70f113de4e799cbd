// From sums to gradients, of any type and stride, by way of the shared memory that the block's tiles were in.
#pragma once

#include "backward/wgmma/block.cuh"
#include "collective/gradient_output.cuh"

namespace fa::kernels::backward_wgmma {

/// Writes the sums of a warp's rows, each times a factor: those of the block that are below `rows`. Eight rows at a
/// time pass through shared memory, so that neighbouring lanes write neighbouring columns.
template <class B>
__device__ inline void store_sums(const SharedMemory<B> &shared, const Gradient &gradient, const typename B::Sums &sum,
                                  int rows, int columns, float factor) {
  constexpr int warps = 4 * consumers;
  static_assert(2 * B::OwnTile::bytes >= warps * 8 * B::dim * 4);
  constexpr int exchanged = 4;  // blocks of 8 columns that change places, so that rows do not share banks
  const int lane = threadIdx.x % 32, row_of_eight = lane / 4;
  const uint32_t staged = shared.own(0) + (threadIdx.x / 32 - 4) * 8 * B::dim * 4;
  const uint32_t to = staged + (row_of_eight * B::dim + B::Sums::first_column(lane)) * 4;
  unroll<B::Rows::rows>([&](int r) {
    const int first = B::row_of(threadIdx.x, r) - row_of_eight;
    __syncwarp();
    sum.for_each_pair_in_row(r, [&](float x, float y, int j) {
      st_shared_v2_f32(to + (j ^ row_of_eight % exchanged) * 32, x * factor, y * factor);
    });
    __syncwarp();
#pragma unroll 1
    for (int i = lane; i < 2 * B::dim; i += 32) {
      const int row = i / (B::dim / 4), column = i % (B::dim / 4) * 4;
      if (first + row >= rows || column >= columns) continue;
      const uint4 x = ld_shared_v4_b32(staged + (row * B::dim + (column ^ row % exchanged * 8)) * 4);
      const Quad quad = {{__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)}};
      gradient.put(first + row, column, quad, columns - column);
    }
  });
}

}  // namespace fa::kernels::backward_wgmma
