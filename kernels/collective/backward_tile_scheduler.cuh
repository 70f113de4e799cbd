// The work tiles of the backward pass, and the offsets of row statistics. Entry::dq, dbias and delta own rows of
// queries: get_initial_work_tile (collective/tile_scheduler.cuh) of a schedule without splits and packed heads.
// Entry::dkv owns keys of a key/value head, and takes the queries of all heads that read it.
#pragma once

#include "collective/tile_scheduler.cuh"
#include "common/backward_params.h"

namespace fa::kernels {

/// The offset of query 0 of a sequence and head in BackwardParams::terms: a multiple of stats_block.
__device__ inline int64_t first_term(const BackwardParams &p, const Sequence &s, int32_t head) {
  if (p.cu_seqlens_q == nullptr) return (int64_t(s.index) * p.heads_q + head) * p.stats_rows;
  return head * p.stats_rows + (int64_t(s.q_first) + int64_t(s.index) * stats_block) / stats_block * stats_block;
}

/// The work tile of a block that owns keys.
struct KeyWorkTile {
  int32_t entry;  // the sequence; under kv_batch_idx the row of the cache, which several sequences may share; -1: none
  int32_t kv_head;
  int32_t first;  // key of the sequence; under kv_batch_idx token of the cache's row
};

/// This launch's tile number tile_index of keys. A column is a key/value head (of a sequence, or of a row of the cache,
/// unless cu_seqlens_k is given). Its first tiles come first, as under a causal mask they have the most queries;
/// columns come in sections whose queries stay in L2 together. Called by whole warps.
__device__ inline KeyWorkTile get_key_work_tile(const BackwardParams &p, int32_t block_keys, int64_t tile_index) {
  const TileSchedulerParams &s = p.schedule;
  const int64_t columns = int64_t{p.batch_k} * p.heads_kv;
  const int64_t index = s.first_tile + tile_index;
  const int64_t first = index / (s.l2_section * s.tiles) * s.l2_section, section = min(s.l2_section, columns - first);
  const int64_t in_section = index - first * s.tiles, rank = in_section / section;
  const int64_t column = first + in_section - rank * section;
  KeyWorkTile w;
  w.entry = int32_t(quotient(column, p.heads_kv, p.by_head_groups));
  w.kv_head = int32_t(column - int64_t(w.entry) * p.heads_kv);
  int32_t tile = int32_t(rank);
  if (p.cu_seqlens_k) w.entry = sequence_of_tile(p, p.cu_seqlens_k, &tile);
  w.first = tile * block_keys;
  return w;
}

__device__ inline KeyWorkTile get_initial_key_work_tile(const BackwardParams &p, int32_t block_keys) {
  return get_key_work_tile(p, block_keys, blockIdx.x);
}

/// Of all launches of a call in a fixed order: how many blocks have begun. Behind the semaphores; Entry::delta clears
/// it.
__device__ inline unsigned long long *key_tickets(const BackwardParams &p) {
  const int64_t rows = int64_t{p.cu_seqlens_q ? 1 : p.batch} * p.heads_q * p.stats_rows;
  return reinterpret_cast<unsigned long long *>(p.dq_semaphore + rows / dq_semaphore_rows);
}

/// The same where blocks may wait for each other: the next keys that no block has, as CUDA promises no order in which
/// blocks begin. ticket: in shared memory. By all threads.
__device__ inline KeyWorkTile take_key_work_tile(const BackwardParams &p, int32_t block_keys, int64_t *ticket) {
  if (p.dq_semaphore == nullptr) return get_initial_key_work_tile(p, block_keys);
  if (threadIdx.x == 0) *ticket = int64_t(atomicAdd(key_tickets(p), 1ull));
  __syncthreads();
  return get_key_work_tile(p, block_keys, *ticket - p.schedule.first_tile);
}

/// The queries that may attend one of the keys first .. end - 1: all that do, and few others. None where no head has
/// any.
__device__ inline Interval attending(const BackwardParams &p, const Sequence &s, int32_t first, int32_t end) {
  if (p.heads_q == 0) return {0, 0};
  if (!p.has_key_bounds) return {0, s.queries};
  return queries_of_any_key(p, p.causal != 0, s, first, int64_t{end} - 1);
}

}  // namespace fa::kernels
