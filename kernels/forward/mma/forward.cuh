// Attention of a tile of queries over tiles of keys and values that pass through a ring in shared memory; Pass::step
// has the five lines.
#pragma once

#include "forward/mma/cross_warp.cuh"
#include "forward/mma/products.cuh"
#include "forward/mma/ring.cuh"
#include "forward/mma/store.cuh"

namespace fa::kernels::mma {

/// A block's pass over its tiles. In a second one values that are not finite count as 0, and weights of rows that need
/// it are exact.
template <class B>
struct Pass {
  using Scores = typename B::Scores;

  const Params &p;
  const SharedMemory<B> &shared;
  Queries<B> queries;
  Ring<B> ring;
  OnlineSoftmax<B> softmax;
  typename B::Out out;

  __device__ Pass(const Params &params, const SharedMemory<B> &memory, const WorkTile &w, const KeyBlockRange &tiles)
      : p(params), shared(memory), queries(memory.queries), ring(params, memory, w, tiles, [&] {
          if constexpr (B::split_keys_across_warps) load_queries<B>(params, w, memory.queries);
        }) {
    out.clear();
  }

  /// True when this warp has rows at all.
  __device__ bool has_rows() const {
    return B::plain || shared.block->work.first_row + B::first_row(threadIdx.x / 32) < shared.block->work.rows;
  }

  template <bool Masked>
  __device__ void step(int tile) {
    BlockState<B> &block = *shared.block;
    Scores s;
    const auto weigh = [&](float c, auto exact) {
      softmax.update_row_max(out, s, c, exact);  // m' = max(m, rowmax S), and the scale a of l and O
      softmax.exponentiate(s, c, exact);         // P = exp2(c S - c m')
      softmax.add_weights(s);                    // l = l a + rowsum P
    };
    const uint32_t keys = ring.template next_keys<Masked>(tile, block);
    if (has_rows()) {
      multiply_keys<B>(s, queries, keys);  // S = Q K^T
      if constexpr (!B::plain) {
        finish_scores<B>(p, s, tile * B::keys + B::first_key(threadIdx.x / 32), block, block.tiles.full(tile));
        weigh(log2_e, [](int) { return true; });
      } else {
        if (B::score_mod && p.softcap > 0) cap_products(s, block.steepness);
        if (B::score_mod && p.alibi_slopes.data) slope_products<B>(s, tile * B::keys, block);
        if constexpr (Masked) mask_intervals<B>(s, tile * B::keys, block);
        const float c = B::score_mod ? block.base_2 : p.scale * log2_e;
        if (Masked && block.second_run) {  // the first pass found which rows need exact weights
          bool exact[B::Rows::rows];
          unroll<B::Rows::rows>(
              [&](int r) { exact[r] = block.fixups[row_of_tile<B>(threadIdx.x, r)] & exact_weights; });
          weigh(c, [&](int r) { return exact[r]; });
        } else {
          weigh(c, [](int) { return false; });
        }
      }
    }
    const std::conditional_t<B::score_mod, PackedWeights<B>, const Scores &> weights(s);
    const uint32_t values = ring.template next_values<Masked>(tile, block);
    if (Masked && block.second_run) {
      clear_nonfinite(values, B::KeyTile::bytes, infinities<B::dtype>);
      __syncthreads();
    }
    if (has_rows()) multiply_values<B>(out, weights, values);  // O = O a + P V
  }

  __device__ void run() {
    if constexpr (B::shape.q_in_registers) {
      cp_async_wait_group<B::stages - 1>();
      __syncthreads();
      queries.load();
    }
    const BlockState<B> &block = *shared.block;
    const int first = block.tiles.first;
    int tile = ring.tile(block.tiles);
    while (tile >= first) {
#pragma unroll 1
      for (; tile >= first && (!B::plain || block.second_run || !block.tiles.full(tile)); tile = ring.after(tile))
        step<true>(tile);
      if constexpr (B::plain) {
        const int last = max(first, block.tiles.full_first);
#pragma unroll 1
        for (; tile >= last; tile--) step<false>(tile);
      }
    }
  }
};

template <class B>
__device__ inline void forward(const Params &p) {
  if constexpr (B::splits) {
    griddepcontrol_wait();               // first of all: the kernel before may write the lengths of sequences, too
    griddepcontrol_launch_dependents();  // only now, as combine reads them before it waits
  }
  extern __shared__ __align__(128) char memory[];
  const SharedMemory<B> shared(memory);
  BlockState<B> *const block = shared.block;
  WorkTile w = get_initial_work_tile(p, B::rows);
  if (w.rows == 0) return;
  const Interval split = B::splits ? keys_of_split(p, w.sequence, w.split, B::keys) : Interval{0, w.sequence.keys};
  KeyBlockRange tiles = key_block_range<B>(p, w, split, block);
  if (threadIdx.x == 0) {
    block->work = w, block->tiles = tiles, block->second_run = false;
    if constexpr (!B::plain) block->shown.clear();
    if constexpr (B::paged) block->table = p.block_table.data + w.sequence.index * p.block_table.stride[0];
    if constexpr (B::score_mod) {
      block->keys = p.k.data + w.kv_head * p.k.stride[2], block->values = p.v.data + w.kv_head * p.v.stride[2];
      block->base_2 = score_scale(p) * log2_e, block->steepness = softcap_slope_of(p);
      if (p.alibi_slopes.data) block->slope = alibi_slope(p, w.sequence, w.head_group) / score_scale(p);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (;;) {
    if constexpr (!B::split_keys_across_warps) {  // whose pass begins with keys, as they take longer to arrive
      load_queries<B>(p, block->work, shared.queries);
      cp_async_commit_group();
    }
    // A first pass that begins early has its work tile in registers already.
    Pass<B> pass(p, shared, B::split_keys_across_warps ? w : block->work,
                 B::split_keys_across_warps ? tiles : block->tiles);
    pass.run();
    cp_async_wait_group<0>();
    __syncthreads();  // the tiles are free
    bool needs_fixup = false;
    if constexpr (B::split_keys_across_warps) {
      needs_fixup = join_warps<B>(p, shared, pass.softmax, pass.out, block->second_run);
    } else {
      needs_fixup = store<B>(p, block, pass.out, pass.softmax, shared.queries, block->second_run);
    }
    if (block->second_run || !__syncthreads_or(needs_fixup)) return;
    if (threadIdx.x == 0) block->second_run = true;
    __syncthreads();
    if constexpr (B::split_keys_across_warps) w = block->work, tiles = block->tiles;
  }
}

}  // namespace fa::kernels::mma
