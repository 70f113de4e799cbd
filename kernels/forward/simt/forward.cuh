// The five lines of attention in scalar f32 (multiply_keys, weigh, multiply_values), for one tile of rows and one split
// of its keys. Eight neighbouring lanes share a few rows: in S = Q K^T each computes every eighth key, in O = P V on
// every eighth dimension.
#pragma once

#include "collective/block_mask.cuh"
#include "collective/nonfinite.cuh"
#include "collective/score_mod.cuh"
#include "common/lanes.cuh"
#include "common/ptx.cuh"
#include "common/unroll.cuh"
#include "forward/simt/tiles.h"

namespace fa::kernels::simt {

/// The shared memory of a block.
template <int dim>
struct Shared {
  float (*q)[dim + 1];        // [rows]
  float (*kv)[dim + 1];       // [keys]: keys, then their values
  float (*p)[keys(dim) + 1];  // [rows]: weights

  __device__ explicit Shared(float *memory)
      : q(reinterpret_cast<float (*)[dim + 1]>(memory)),
        kv(q + rows(dim)),
        p(reinterpret_cast<float (*)[keys(dim) + 1]>(kv + keys(dim))) {}
};

/// The rows that a thread shares, and their unfinished softmax and sums.
template <int dim>
struct ThreadRows {
  static constexpr int rows = simt::rows(dim) / (threads / lanes);
  static constexpr int columns = keys(dim) / lanes;
  static constexpr int dims = dim / lanes;

  int first = threadIdx.x / lanes * rows;  // of the tile
  int lane = threadIdx.x % lanes;
  RowScores scores[rows];
  Softmax softmax[rows];
  float o[rows][dims] = {};  // dimensions lane, lane + 8, ...
};

/// Elements 0 .. dim - 1 of n rows into shared memory. row(r) is the address of one, null for zeros; elements past
/// row_dim are 0. True when one is NaN or infinite.
template <int dim, class F>
__device__ inline bool load_rows(float (*to)[dim + 1], int n, F row, int row_dim, int64_t stride, int32_t dtype) {
  bool special = false;
  for (int r = threadIdx.x / 32; r < n; r += threads / 32) {
    const char *from = row(r);
#pragma unroll 4
    for (int d = threadIdx.x % 32; d < dim; d += 32) {
      const float x = from && d < row_dim ? load_element(from + d * stride, dtype) : 0;
      to[r][d] = x;
      special |= !isfinite(x);
    }
  }
  return special;
}

/// A thread's rows before their first key, and the block's queries into shared memory.
template <int dim>
__device__ inline void begin_rows(const Params &p, const WorkTile &w, ThreadRows<dim> &thread,
                                  const Shared<dim> &shared) {
#pragma unroll
  for (int i = 0; i < thread.rows; ++i) {
    const int r = w.first_row + thread.first + i;
    thread.scores[i] = row_scores_with_tree(p, w.sequence, row_at(p, w, min(r, w.rows - 1)));
    if (r >= w.rows) thread.scores[i].keys = {0, 0};
  }
  const auto query_of = [&](int r) { return q_row(p, w.sequence, row_at(p, w, min(w.first_row + r, w.rows - 1))); };
  load_rows<dim>(shared.q, rows(dim), query_of, p.head_dim, p.q.stride[3], p.q_dtype);
}

/// The keys that some row of the block attends.
template <int dim>
__device__ inline Interval attended_by_block(const ThreadRows<dim> &thread) {
  __shared__ int low, high;
  if (threadIdx.x == 0) low = INT32_MAX, high = 0;
  __syncthreads();
  for (const RowScores &row : thread.scores) {
    if (row.keys.empty()) continue;
    atomicMin(&low, row.keys.low);
    atomicMax(&high, row.keys.high);
  }
  __syncthreads();
  return {low, high};
}

/// Of a thread's rows with keys lane, lane + 8, ... of the tile.
template <int dim>
using Scores = float[ThreadRows<dim>::rows][ThreadRows<dim>::columns];

/// S = Q K^T.
template <int dim>
__device__ inline void multiply_keys(Scores<dim> &s, const ThreadRows<dim> &thread, const Shared<dim> &shared,
                                     int head_dim) {
#pragma unroll 4
  for (int d = 0; d < head_dim; ++d) {
    unroll<ThreadRows<dim>::columns>([&](int c) {
      const float k = shared.kv[thread.lane + c * lanes][d];
      unroll<ThreadRows<dim>::rows>([&](int i) { s[i][c] += shared.q[thread.first + i][d] * k; });
    });
  }
}

/// A bit for each of a thread's scores: whether the tree of new tokens hides it.
template <int dim>
__device__ inline uint32_t hidden_in_tree(const Params &p, const WorkTile &w, const ThreadRows<dim> &thread,
                                          int32_t key) {
  constexpr int columns = ThreadRows<dim>::columns;
  static_assert(ThreadRows<dim>::rows * columns <= 32);
  uint32_t hidden = 0;
  if (!p.tree_mask.data || key + keys(dim) <= first_new_key(w.sequence)) return hidden;
#pragma unroll 1
  for (int n = 0; n < ThreadRows<dim>::rows * columns; n++) {
    const Row row = row_at(p, w, min(w.first_row + thread.first + n / columns, w.rows - 1));
    const int32_t of_score = key + thread.lane + n % columns * lanes;
    if (!attends_in_tree(p, w.sequence, row, of_score)) hidden |= 1u << n;
  }
  return hidden;
}

/// m' = max(m, rowmax S); P = e^(S - m'); l = l a + rowsum P; O = O a, of scores yet to be scaled and masked.
template <int dim>
__device__ inline void weigh(const Params &p, const WorkTile &w, ThreadRows<dim> &thread, const Shared<dim> &shared,
                             Scores<dim> &s, int32_t key) {
  constexpr int columns = ThreadRows<dim>::columns;
  const uint32_t hidden = hidden_in_tree<dim>(p, w, thread, key);
  int64_t position[columns];
  unroll<columns>([&](int c) { position[c] = position_of_key(p, w.sequence, key + thread.lane + c * lanes); });
#pragma unroll
  for (int i = 0; i < thread.rows; ++i) {
    Softmax &softmax = thread.softmax[i];
    bool attends[columns];
    float max = softmax.max, sum = 0;
    unroll<columns>([&](int c) {
      const bool shown = (hidden >> (i * columns + c) & 1) == 0;
      const Score score(p, thread.scores[i], s[i][c], key + thread.lane + c * lanes, position[c], shown);
      s[i][c] = score.value(), attends[c] = score.attends;
      max = fmaxf(max, s[i][c]);
    });
    max = max_over_lanes<lanes>(max);
    const float finite = finite_max(max), rescale = weight_of(softmax.max - finite);
    unroll<columns>([&](int c) {
      // A masked key has the weight -0, unlike one whose weight is too small for a float.
      const float weight = attends[c] ? weight_of(s[i][c] - finite) : -0.0f;
      shared.p[thread.first + i][thread.lane + c * lanes] = weight;
      sum += weight;
    });
    softmax = {max, softmax.sum * rescale + sum_over_lanes<lanes>(sum)};
    unroll<ThreadRows<dim>::dims>([&](int d) { thread.o[i][d] *= rescale; });
  }
}

/// O = O + P V. With special values masked keys are left out, as 0 times NaN is not 0.
template <bool special, int dim>
__device__ inline void multiply_values(ThreadRows<dim> &thread, const Shared<dim> &shared) {
#pragma unroll 1
  for (int e = 0; e < keys(dim); ++e) {
    unroll<ThreadRows<dim>::rows>([&](int i) {
      const float weight = shared.p[thread.first + i][e];
      if (special && signbit(weight)) return;
      unroll<ThreadRows<dim>::dims>([&](int d) { thread.o[i][d] += weight * shared.kv[e][thread.lane + d * lanes]; });
    });
  }
}

/// Where elements of a row's result go, and how: whole ones as the call wants them, those of a split in f32.
struct Output {
  char *row;
  int64_t stride;
  int32_t dtype;

  __device__ char *element(int at) const { return row + at * stride; }
};

/// Sets a row's elements that are not finite to the result of the attended values.
__device__ inline void repair(const Params &p, const WorkTile &w, const Row &row, Interval keys, int lane, float factor,
                              const Output &out) {
#pragma unroll 1
  for (int at = lane; at < p.head_dim_v; at += lanes) {
    if (is_finite(load_element(out.element(at), out.dtype))) continue;
    const float special = nonfinite_sum<true>(p, w, row, keys, at);
    if (special != 0) store_element(out.element(at), out.dtype, special + (factor - factor));
  }
}

/// Writes the rows' results, or their partial results of this split.
template <int dim>
__device__ inline void store(const Params &p, const WorkTile &w, const ThreadRows<dim> &thread, Interval split) {
  const bool whole = p.schedule.num_splits == 1;
#pragma unroll
  for (int i = 0; i < thread.rows; ++i) {
    if (w.first_row + thread.first + i >= w.rows) break;
    const Row row = row_at(p, w, w.first_row + thread.first + i);
    const int64_t partial_row = w.partial_row + thread.first + i;
    const Softmax &softmax = thread.softmax[i];
    const float factor =
        whole ? finish_row(p, w.sequence, row, softmax, sink_of(p, w.sequence, row), thread.lane == 0) : 1;
    if (!whole && thread.lane == 0) store_partial(p, partial_row, softmax);
    const Output out =
        whole ? Output{out_row(p, w.sequence, row), p.out.stride[3], p.out_dtype}
              : Output{reinterpret_cast<char *>(p.o_partial + partial_row * p.head_dim_v), sizeof(float), f32};
    bool finite = true;
#pragma unroll
    for (int d = 0; d < thread.dims; ++d) {
      const int at = thread.lane + d * lanes;
      if (at >= p.head_dim_v) break;
      const float sum = thread.o[i][d];
      store_element(out.element(at), out.dtype, whole ? finished(sum, 0, factor, softmax) : sum);
      finite &= is_finite(sum);
    }
    const Interval keys = thread.scores[i].keys;
    if (!finite && is_finite(softmax.sum))
      repair(p, w, row, {max(keys.low, split.low), min(keys.high, split.high)}, thread.lane, factor, out);
  }
}

template <int dim>
__device__ inline void forward(const Params &p, float *memory) {
  griddepcontrol_launch_dependents();
  const WorkTile w = get_initial_work_tile(p, rows(dim));
  if (w.rows == 0) return;

  const Shared<dim> shared(memory);
  ThreadRows<dim> thread;
  begin_rows<dim>(p, w, thread, shared);
  const Interval split = keys_of_split(p, w.sequence, w.split, keys(dim));
  const Interval all = attended_by_block(thread);
  const int end = min(split.high, all.high);

  const auto row_of_tile = [&](int r) { return row_at(p, w, w.first_row + r); };
  const int tile_rows = min(rows(dim), w.rows - w.first_row);

  // Blocks of keys count from key 0, so that a row's bits do not depend on where its tile begins.
  for (int j = max(split.low, all.low) / keys(dim) * keys(dim); j < end; j += keys(dim)) {
    if (hides_block<keys(dim)>(p, w.sequence, row_of_tile, tile_rows, j)) continue;
    const auto row_of = [&](const View &view) {
      return [&](int r) { return j + r < end ? key_row(p, view, w.sequence, j + r, w.kv_head) : nullptr; };
    };
    load_rows<dim>(shared.kv, keys(dim), row_of(p.k), p.head_dim, p.k.stride[3], p.kv_dtype);
    __syncthreads();
    Scores<dim> s = {};
    multiply_keys<dim>(s, thread, shared, p.head_dim);
    weigh<dim>(p, w, thread, shared, s, j);
    __syncthreads();
    const bool special = load_rows<dim>(shared.kv, keys(dim), row_of(p.v), p.head_dim_v, p.v.stride[3], p.kv_dtype);
    if (__syncthreads_or(special)) {
      multiply_values<true>(thread, shared);
    } else {
      multiply_values<false>(thread, shared);
    }
    __syncthreads();
  }
  store(p, w, thread, split);
}

}  // namespace fa::kernels::simt
