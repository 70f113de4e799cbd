// simt's five lines of attention for one tile of rows and one split of its keys, over rows of any format. Values that
// are not finite count as 0 in sums, and are added to the results.
#pragma once

#include "collective/codes.cuh"
#include "forward/simt/forward.cuh"
#include "forward/simt_quantised/tiles.h"

namespace fa::kernels::simt_quantised {

using simt::keys;
using simt::lanes;
using simt::rows;
using simt::Scores;
using simt::Shared;
using simt::ThreadRows;
using simt::threads;

/// Elements 0 .. dim - 1 of keys first .. first + n - 1 into shared memory: zeros from key `end` on, and past row_dim;
/// with finite, in place of those that are not, too. True when there is one.
template <bool finite, int dim>
__device__ inline bool load_cached_rows(float (*to)[dim + 1], int n, const QuantisedParams &p, const WorkTile &w,
                                        const CachedRows &rows, int32_t first, int32_t end, int32_t row_dim) {
  bool special = false;
#pragma unroll 1
  for (int r = threadIdx.x / 32; r < n; r += threads / 32) {
#pragma unroll 1
    for (int d = threadIdx.x % 32; d < dim; d += 32) {
      float x = 0;
      if (first + r < end && d < row_dim) x = rows.element(p, w.sequence, first + r, w.kv_head, d);
      if (finite && !is_finite(x)) x = 0, special = true;
      to[r][d] = x;
    }
  }
  return special;
}

template <int dim>
__device__ inline void forward(const QuantisedParams &p, float *memory) {
  griddepcontrol_launch_dependents();
  const WorkTile w = get_initial_work_tile(p, rows(dim));
  if (w.rows == 0) return;

  const Shared<dim> shared(memory);
  ThreadRows<dim> thread;
  simt::begin_rows<dim>(p, w, thread, shared);
  const Interval split = keys_of_split(p, w.sequence, w.split, keys(dim));
  const Interval all = simt::attended_by_block(thread);
  const int end = min(split.high, all.high);

  const auto row_of_tile = [&](int r) { return row_at(p, w, w.first_row + r); };
  const int tile_rows = min(rows(dim), w.rows - w.first_row);

  bool special = false;
  for (int j = max(split.low, all.low) / keys(dim) * keys(dim); j < end; j += keys(dim)) {
    if (hides_block<keys(dim)>(p, w.sequence, row_of_tile, tile_rows, j)) continue;
    load_cached_rows<false, dim>(shared.kv, keys(dim), p, w, CachedRows::keys(p), j, end, p.head_dim);
    __syncthreads();
    Scores<dim> s = {};
    simt::multiply_keys<dim>(s, thread, shared, p.head_dim);
    simt::weigh<dim>(p, w, thread, shared, s, j);
    __syncthreads();
    special |= load_cached_rows<true, dim>(shared.kv, keys(dim), p, w, CachedRows::values(p), j, end, p.head_dim_v);
    __syncthreads();
    simt::multiply_values<false>(thread, shared);
    __syncthreads();
  }
  simt::store(p, w, thread, split);
  if (thread.lane == 0)
    unroll<ThreadRows<dim>::rows>([&](int i) { shared.p[thread.first + i][0] = thread.softmax[i].sum; });
  if (!__syncthreads_or(special)) return;
#pragma unroll 1
  for (int r = threadIdx.x / lanes; r < tile_rows; r += threads / lanes) {
    if (shared.p[r][0] == 0) continue;  // no key counts
    const Interval of_row = attended_with_tree(p, w.sequence, row_of_tile(r).query);
    add_special_cached_values(p, w, r, {max(of_row.low, split.low), min(of_row.high, split.high)}, thread.lane, lanes);
  }
}

}  // namespace fa::kernels::simt_quantised
