// The stream of query tiles of a block that owns keys: which tiles, in which order, and their copies.
#pragma once

#include "backward/mma/load.cuh"

namespace fa::kernels::backward_mma {

/// The coordinates of the next step.
__device__ inline StreamCoord after(StreamCoord at, int group) {
  at.advance(group);
  return at;
}

/// The step of a tile of queries; by one thread.
template <class B>
__device__ inline Step step_at(const BackwardParams &p, const BlockState<B> &state, StreamCoord at) {
  const int row = at.tile * B::columns;
  Step step = {at, at.tile >= state.tiles.low ? state.sequence.queries - row : 0,
               row >= state.full.low && row + B::columns <= state.full.high};
  unroll<2>([&](int which) {
    const View &view = which ? p.dout : p.q;
    step.rows[which] = state.streamed[which] + at.head * view.stride[2] + row * view.stride[1];
  });
  step.terms = state.row_terms + (at.head * p.stats_rows + row);
  if constexpr (B::scales_ds) step.factors = p.row_factors + (step.terms - p.row_stats) / stats_block;
  return step;
}

/// Begins to copy the rows of step n and their statistics.
template <class B>
__device__ inline void fetch_queries(BlockState<B> &state, Ring<B> &ring, int n) {
  const Step step = state.steps[n & 3];  // read before the first copy, behind which nvcc would load its parts again
  if (threadIdx.x < B::columns) {
    const RowStats *const from = step.terms + threadIdx.x;
    cp_async_4(shared_address(&state.terms[n & 1].neg_lse_log2[threadIdx.x]), &from->neg_lse_log2);
    cp_async_4(shared_address(&state.terms[n & 1].neg_dpsum[threadIdx.x]), &from->neg_dpsum);
  }
  if constexpr (B::scales_ds) {
    if (threadIdx.x == 0) cp_async_4(shared_address(&state.largest_factor[n & 1]), &step.factors->largest);
  }
  ring.fetch(B::stage(n), step.rows, 0, step.left);
}

}  // namespace fa::kernels::backward_mma
