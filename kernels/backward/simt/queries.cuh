// dQ = dS K of a tile of queries of a head.
#pragma once

#include "backward/simt/sums.cuh"

namespace fa::kernels::backward_simt {

/// The keys that some row of a tile attends. By every warp for itself: a lane has a row.
__device__ inline Interval attended_by_tile(const BackwardParams &p, const WorkTile &w) {
  static_assert(rows == 32);
  const int32_t query = w.first_row + int(threadIdx.x) % 32;
  const Interval own = query < w.rows ? attended(p, w.sequence, query) : Interval{0, 0};
  return {min_over_warp(own.empty() ? INT32_MAX : own.low), max_over_warp(own.high)};
}

__device__ inline void queries_of_block(const BackwardParams &p, float *memory) {
  const WorkTile w = get_initial_work_tile(p, rows);
  if (w.rows == 0) return;
  const Shared shared(memory);
  TilePair pair = {w.sequence, w.head_group, w.kv_head, w.first_row, 0};
  const ThreadRows thread(p, pair);
  const Interval all = attended_by_tile(p, w);
  Sums dq;
#pragma unroll 1
  for (int j = all.low / keys * keys; j < all.high; j += keys) {
    pair.first_key = j;
    if (is_hidden(p, pair)) continue;
    compute_p_ds(p, pair, thread, shared);
    each_part(p.head_dim, [&](int at, int first) {
      load_keys<true>(p, pair, shared, false, first);
      __syncthreads();
      dq.add(at, shared.values, keys, [&](int row, int key) { return shared.ds[row][key]; });
      __syncthreads();
    });
  }
  unroll<thread_rows>([&](int i) {
    const int row = threadIdx.x / lanes * thread_rows + i;
    if (!pair.has_query(row)) return;
    dq.store(i, const_cast<char *>(pair.query_row(p, p.dq, row)), p.dq.stride[3], p.dq_dtype,
             p.accumulate & accumulate_dq, p.head_dim, p.scale);
  });
}

}  // namespace fa::kernels::backward_simt
