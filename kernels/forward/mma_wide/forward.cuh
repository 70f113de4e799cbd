// Attention of a tile of queries over tiles of keys and values whose columns pass through a ring in shared memory;
// Pass::step has the five lines.
#pragma once

#include "forward/mma/scores.cuh"
#include "forward/mma_wide/products.cuh"
#include "forward/mma_wide/ring.cuh"
#include "forward/mma_wide/store.cuh"

namespace fa::kernels::mma_wide {

/// A block's pass over its tiles. In a second one values that are not finite count as 0.
template <class B>
struct Pass {
  const Params &p;
  const SharedMemory<B> &shared;
  Ring<B> ring;
  OnlineSoftmax<B> softmax;
  typename B::Out out;

  __device__ Pass(const Params &params, const SharedMemory<B> &memory)
      : p(params), shared(memory), ring(params, memory) {
    out.clear();
  }

  __device__ void step(int tile) {
    BlockState<B> &block = *shared.block;
    const int warp = threadIdx.x / 32, own_key = tile * B::keys + B::first_key(warp);
    const bool has_rows = block.work.first_row + B::first_row(warp) < block.work.rows;
    const uint32_t shown = shown_keys(block, tile);
    typename B::Scores s;
    s.clear();
#pragma unroll 1
    for (int c = 0; c < ring.key_chunks; c++) {
      const uint32_t keys = ring.next(block);
      if (has_rows && shown >> B::rank(warp) & 1)
        multiply_keys<B>(s, shared.queries, keys, c, p.head_dim);  // S = Q K^T
    }
    if (has_rows) {
      mma::finish_scores<B>(p, s, own_key, block, block.tiles.full(tile));
      softmax.put_row_max(block, s);
    }
    __syncthreads();
    if (has_rows) {
      softmax.update_row_max(out, block);  // m' = max(m, rowmax S), and the scale a of l and O
      softmax.exponentiate(s);             // P = exp2(c S - c m'), l = l a + rowsum P
      Weights<B>::store(shared.weights, s);
    }
    Weights<B> weights;
#pragma unroll 1
    for (int c = 0; c < ring.value_chunks; c++) {
      const uint32_t values = ring.next(block);
      if (c == 0 && has_rows) weights.load(shared.weights);
      if (block.second_run) {
        clear_nonfinite(values, B::KeyTile::bytes, infinities<B::dtype>);
        __syncthreads();
      }
      if (has_rows) multiply_values<B>(out, weights, values, c, shown);  // O = O a + P V
    }
  }

  __device__ void run() {
    const int first = shared.block->tiles.first;
#pragma unroll 1
    for (int tile = ring.tile(); tile >= first; tile = ring.tile()) step(tile);
  }
};

template <class B>
__device__ inline void forward(const Params &p) {
  griddepcontrol_launch_dependents();
  extern __shared__ __align__(128) char memory[];
  const SharedMemory<B> shared(memory);
  BlockState<B> *const block = shared.block;
  {
    const WorkTile w = get_initial_work_tile(p, B::rows);
    if (w.rows == 0) return;
    const Sequence &s = w.sequence;
    const KeyBlockRange tiles = mma::key_block_range<B>(p, w, keys_of_split(p, s, w.split, B::keys), block);
    if (threadIdx.x == 0) {
      block->work = w, block->tiles = tiles, block->second_run = false;
      block->shown.clear();
      block->table = p.block_table.data + s.index * p.block_table.stride[0];
      const auto first_row = [&](const View &view) {
        const char *const head = view.data + w.kv_head * view.stride[2];
        return p.page_size != 0 ? head : head + s.k_batch * view.stride[0] + s.k_first * view.stride[1];
      };
      block->first_key = first_row(p.k), block->first_value = first_row(p.v);
    }
  }
  __syncthreads();
  if (const Interval keys = keys_of_block(*block); threadIdx.x == 0) block->attended_by_any = keys;
  __syncthreads();
#pragma unroll 1
  for (;;) {
    mma::load_queries<B>(p, block->work, shared.queries);
    cp_async_commit_group();
    Pass<B> pass(p, shared);
    pass.run();
    cp_async_wait_group<0>();
    __syncthreads();  // the tiles are free
    const bool needs_fixup = store<B>(p, shared, pass.out, pass.softmax, block->second_run);
    if (block->second_run || !__syncthreads_or(needs_fixup)) return;
    if (threadIdx.x == 0) block->second_run = true;
    __syncthreads();
  }
}

}  // namespace fa::kernels::mma_wide
