// dV = P^T dO and dK = dS^T Q of a tile of keys of a key/value head: over the heads of its group, and under
// kv_batch_idx over the sequences that share the keys, in order.
#pragma once

#include "backward/simt/sums.cuh"

namespace fa::kernels::backward_simt {

/// A sequence that may have keys of the work tile; false where they are another's.
__device__ inline bool shares_keys(const BackwardParams &p, const KeyWorkTile &w, int32_t b, TilePair *pair) {
  if (p.kv_batch_idx && p.kv_batch_idx[b] != w.entry) return false;
  pair->sequence = sequence(p, b);
  pair->kv_head = w.kv_head;
  pair->first_key = p.kv_batch_idx ? w.first - pair->sequence.k_first : w.first;
  return pair->first_key < pair->sequence.keys && pair->first_key + keys > 0;
}

/// Adds the terms of the queries of pair.head to the sums.
__device__ inline void add_queries(const BackwardParams &p, TilePair &pair, const Shared &shared, Sums &dk, Sums &dv) {
  const Interval all =
      attending(p, pair.sequence, max(pair.first_key, 0), min(pair.first_key + keys, pair.sequence.keys));
#pragma unroll 1
  for (int i = all.low / rows * rows; i < all.high; i += rows) {
    pair.first_query = i;
    if (is_hidden(p, pair)) continue;
    const ThreadRows thread(p, pair);
    compute_p_ds(p, pair, thread, shared);
    if (p.dv.data)
      each_part(p.head_dim_v, [&](int at, int first) {
        load_queries<true>(p, pair, shared, true, first);
        __syncthreads();
        dv.add(at, shared.queries, rows, [&](int key, int row) { return shared.p[row][key]; });
        __syncthreads();
      });
    if (p.dk.data)
      each_part(p.head_dim, [&](int at, int first) {
        load_queries<true>(p, pair, shared, false, first);
        __syncthreads();
        dk.add(at, shared.queries, rows, [&](int key, int row) { return shared.ds[row][key]; });
        __syncthreads();
      });
  }
}

__device__ inline void store_keys(const BackwardParams &p, const KeyWorkTile &w, const TilePair &last, uint32_t used,
                                  const Sums &dk, const Sums &dv) {
  unroll<thread_rows>([&](int i) {
    if ((used >> i & 1) == 0) return;
    const int key = threadIdx.x / lanes * thread_rows + i;
    const auto row = [&](const View &view) {
      if (p.kv_batch_idx)
        return view.data + w.entry * view.stride[0] + (w.first + key) * view.stride[1] + w.kv_head * view.stride[2];
      return const_cast<char *>(last.key_row(p, view, key));
    };
    if (p.dk.data)
      dk.store(i, row(p.dk), p.dk.stride[3], p.dk_dtype, p.accumulate & accumulate_dk, p.head_dim, p.scale);
    if (p.dv.data) dv.store(i, row(p.dv), p.dv.stride[3], p.dv_dtype, p.accumulate & accumulate_dv, p.head_dim_v, 1);
  });
}

__device__ inline void keys_of_block(const BackwardParams &p, float *memory) {
  const KeyWorkTile w = get_initial_key_work_tile(p, keys);
  if (w.entry < 0) return;
  const Shared shared(memory);
  const int32_t group = p.heads_q / p.heads_kv;
  Sums dk, dv;
  TilePair pair = {};
  uint32_t used = 0;  // bit i: a sequence has this thread's key i
#pragma unroll 1
  for (int32_t b = p.kv_batch_idx ? 0 : w.entry; b < (p.kv_batch_idx ? p.batch : w.entry + 1); b++) {
    if (!shares_keys(p, w, b, &pair)) continue;
    unroll<thread_rows>(
        [&](int i) { used |= uint32_t(pair.has_key(int(threadIdx.x) / lanes * thread_rows + i)) << i; });
#pragma unroll 1
    for (pair.head = w.kv_head * group; pair.head < (w.kv_head + 1) * group; pair.head++)
      add_queries(p, pair, shared, dk, dv);
  }
  store_keys(p, w, pair, used, dk, dv);
}

}  // namespace fa::kernels::backward_simt
