// The warps of the first warpgroup: one loads tiles, another adds dQ.
#pragma once

#include "backward/wgmma/block.cuh"
#include "collective/pipeline.cuh"

namespace fa::kernels::backward_wgmma {

/// By one thread.
template <class B>
__device__ inline void load_tiles(const BackwardParams &p, const TensorMaps &maps, const SharedMemory<B> &shared) {
  State<B> &state = *shared.state;
  const Sequence &s = state.sequence;
  const KeyWorkTile &w = state.work;
  const uint32_t kv_full = shared_address(&state.kv_full);
  mbarrier_arrive_expect_tx(kv_full, 2 * B::OwnTile::bytes);
  const int32_t key = s.k_first + w.first;
  load_rows<typename B::OwnTile>(shared.own(0), 0, maps.k, kv_full, {key, w.kv_head, s.k_batch});
  load_rows<typename B::OwnTile>(shared.own(1), 0, maps.v, kv_full, {key, w.kv_head, s.k_batch});
  PipelineState<B::stages> at;
  const auto batch = int32_t(q_batch(p, s));
#pragma unroll 1
  for (StreamCoord tile = {0, state.tiles.high - 1}; tile.tile >= state.tiles.low; tile.advance(state.group)) {
    mbarrier_wait(shared_address(&state.empty[at.stage]), at.parity ^ 1);
    const uint32_t q_full = shared_address(&state.q_full[at.stage]), do_full = shared_address(&state.do_full[at.stage]);
    const int32_t row = tile.tile * B::columns, head = w.kv_head * state.group + tile.head;
    constexpr int of_stats = B::columns * int(sizeof(RowStats)), of_scales = B::scales ? B::columns * 4 : 0;
    mbarrier_arrive_expect_tx(q_full, B::StreamedTile::bytes + of_stats + of_scales);
    load_rows<typename B::StreamedTile>(shared.slot(at.stage, 0), 0, maps.q, q_full, {head, s.q_first + row, batch});
    const int64_t first = state.row + tile.head * p.stats_rows + row;
    cp_async_bulk(shared_address(state.stats[at.stage]), p.row_stats + first, of_stats, q_full);
    if constexpr (B::scales) {
      cp_async_bulk(shared_address(state.ds_scales.of_rows[at.stage]),
                    p.row_factors[first / stats_block].factor + first % stats_block, of_scales, q_full);
    }
    mbarrier_arrive_expect_tx(do_full, B::StreamedTile::bytes);
    load_rows<typename B::StreamedTile>(shared.slot(at.stage, 1), 0, maps.out, do_full, {head, s.q_first + row, batch});
    at.advance();
  }
}

/// Adds tiles of dQ to sums that blocks of keys share, by one thread. Blocks may add in any order, or, by a semaphore,
/// each after the one with the keys before, so that sums have one order. A block waits only for one whose keys were
/// taken earlier (take_key_work_tile), so some block always goes on. All blocks of a column begin at the last rows that
/// attend their keys (StreamCoord), so that those with the same rows follow one another at a step's distance and do not
/// wait after that.
template <class B>
__device__ inline void add_dq(const BackwardParams &p, const SharedMemory<B> &shared) {
  State<B> &state = *shared.state;
  const int32_t key_tile = state.work.first / B::rows;
  uint32_t parity = 0;
#pragma unroll 1
  for (StreamCoord tile = {0, state.tiles.high - 1}; tile.tile >= state.tiles.low; tile.advance(state.group)) {
    const int64_t row = state.row + tile.head * p.stats_rows + tile.tile * B::columns;
    int32_t *const counter = p.dq_semaphore + row / dq_semaphore_rows;
    mbarrier_wait(shared_address(&state.dq_full), parity);
    if (p.dq_semaphore != nullptr && state.before.holds(tile.tile)) {
      while (ld_acquire_gpu(counter) != key_tile) {
      }
      fence_proxy_async_global();
    }
    cp_reduce_async_bulk_add_f32(p.dq_accum + row * B::dim, shared.dq(), B::dq_bytes);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group_read();
    mbarrier_arrive(shared_address(&state.dq_empty));
    if (p.dq_semaphore != nullptr) {
      cp_async_bulk_wait_group();
      fence_proxy_async_global();
      st_release_gpu(counter, key_tile + 1);
    }
    parity ^= 1;
  }
  cp_async_bulk_wait_group();
}

}  // namespace fa::kernels::backward_wgmma
