// Attention of a tile of queries over tiles of keys and values that are widened from codes; Pass::step has the five
// lines.
#pragma once

#include "forward/mma/cross_warp.cuh"
#include "forward/mma/products.cuh"
#include "forward/mma/scores.cuh"
#include "forward/mma/store.cuh"
#include "forward/mma_quantised/ring.cuh"

namespace fa::kernels::mma_quantised {

/// A block's pass over its tiles. In a second one values that are not finite count as 0.
template <class B>
struct Pass {
  const QuantisedParams &p;
  const SharedMemory<B> &shared;
  mma::Queries<B> queries;
  Ring<B> ring;
  mma::OnlineSoftmax<B> softmax;
  typename B::Out out;
  Unit<B> unit;

  __device__ Pass(const QuantisedParams &params, const SharedMemory<B> &memory)
      : p(params), shared(memory), queries(memory.queries), ring(params, memory), unit(params) {
    out.clear();
  }

  /// True when this warp has rows at all.
  __device__ bool has_rows() const {
    return shared.block->work.first_row + B::first_row(threadIdx.x / 32) < shared.block->work.rows;
  }

  __device__ void step() {
    mma::BlockState<B> &block = *shared.block;
    const auto exact = [](int) { return true; };
    const int tile = ring.tile();
    const TileFactors<B> &factors = ring.next();
    if (block.second_run) {
      clear_nonfinite(shared.values(), B::KeyTile::bytes, infinities<B::dtype>);
      __syncthreads();
    }
    unit.raise(out, ring.largest());
    if (has_rows()) {
      typename B::Scores s;
      mma::multiply_keys<B>(s, queries, shared.keys());  // S = Q K^T
      scale_products<B>(p, s, *shared.state, factors);
      mma::finish_scores<B>(p, s, tile * B::keys + B::first_key(threadIdx.x / 32), block, block.tiles.full(tile));
      softmax.update_row_max(out, s, log2_e, exact);  // m' = max(m, rowmax S), and the scale a of l and O
      softmax.exponentiate(s, log2_e, exact);         // P = exp2(c (S - m'))
      softmax.add_weights(s);                         // l = l a + rowsum P
      scale_weights<B>(p, s, out, factors, unit.inverse());
      mma::multiply_values<B>(out, s, shared.values());  // O = O a + P V
    }
    ring.advance();
  }

  __device__ void run() {
    const int first = shared.block->tiles.first;
#pragma unroll 1
    while (ring.tile() >= first) step();
    finish_units<B>(p, out, unit);
  }
};

/// Sums each row of queries: the factor of the part of keys' zeros that is not subtracted from codes.
template <class B>
__device__ inline void sum_queries(const SharedMemory<B> &shared) {
  using Tile = typename B::QueryTile;
#pragma unroll 1
  for (int r = threadIdx.x / 32; r < B::rows; r += B::threads / 32) {
    float sum = 0;
#pragma unroll 1
    for (int chunk = threadIdx.x % 32; chunk < B::dim / 8; chunk += 32) {
      const uint4 x = ld_shared_v4_b32(shared.queries + Tile::offset(r, chunk));
      const typename B::Element *const of_chunk = reinterpret_cast<const typename B::Element *>(&x);
      unroll<8>([&](int i) { sum += to_float(of_chunk[i]); });
    }
    sum = sum_over_lanes<32>(sum);
    if (threadIdx.x % 32 == 0) shared.state->query_sum[r] = sum;
  }
}

/// After a second pass: marks the rows that attend a key. l: the sums of this thread's rows.
template <class B, class Memory>
__device__ inline void mark_rows_with_keys(const Memory &shared, const typename B::Rows &l) {
  unroll<B::Rows::rows>([&](int r) {
    const int row = mma::row_of_tile<B>(threadIdx.x, r);
    if (l[r] != 0) atomicOr(&shared.state->has_keys[row / 32], 1u << row % 32);
  });
}

/// After a second pass: sets the results that attended values which are not finite reach.
template <class Memory>
__device__ inline void add_special_values(const QuantisedParams &p, const Memory &shared) {
  const auto &block = *shared.block;
  const int rows = min(int(sizeof block.fixups), block.work.rows - block.work.first_row);
#pragma unroll 1
  for (int r = threadIdx.x / 32; r < rows; r += blockDim.x / 32)
    if (shared.state->has_keys[r / 32] >> r % 32 & 1)
      add_special_cached_values(p, block.work, r, block.attended(r), threadIdx.x % 32, 32);
}

template <class B>
__device__ inline void forward(const QuantisedParams &p) {
  griddepcontrol_launch_dependents();
  extern __shared__ __align__(128) char memory[];
  const SharedMemory<B> shared(memory);
  mma::BlockState<B> *const block = shared.block;
  {
    const WorkTile w = get_initial_work_tile(p, B::rows);
    if (w.rows == 0) return;
    const KeyBlockRange tiles = mma::key_block_range<B>(p, w, keys_of_split(p, w.sequence, w.split, B::keys), block);
    if (threadIdx.x == 0) {
      block->work = w, block->tiles = tiles, block->second_run = false;
      block->shown.clear();
      block->table = p.block_table.data + w.sequence.index * p.block_table.stride[0];
    }
  }
  __syncthreads();
#pragma unroll 1
  for (bool second_run = false;; second_run = true) {
    mma::load_queries<B>(p, block->work, shared.queries);
    cp_async_commit_group();
    if (p.factors[k_zero].data != nullptr) {
      cp_async_wait_group<0>();
      __syncthreads();
      sum_queries(shared);
    }
    Pass<B> pass(p, shared);
    pass.run();
    if (second_run)
      for (int i = threadIdx.x; i < (B::rows + 31) / 32; i += B::threads) shared.state->has_keys[i] = 0;
    cp_async_wait_group<0>();
    __syncthreads();  // the tiles are free
    if (second_run) mark_rows_with_keys<B>(shared, pass.softmax.l);
    bool needs_fixup = false;
    if constexpr (B::split_keys_across_warps) {
      needs_fixup = mma::join_warps<B>(p, shared, pass.softmax, pass.out, false);
    } else {
      needs_fixup = mma::store<B>(p, block, pass.out, pass.softmax, shared.queries, false);
    }
    needs_fixup = __syncthreads_or(needs_fixup);
    if (second_run) return add_special_values(p, shared);
    if (!needs_fixup) return;
    if (threadIdx.x == 0) block->second_run = true;
    __syncthreads();
  }
}

}  // namespace fa::kernels::mma_quantised
