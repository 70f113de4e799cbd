// The five lines of attention in scalar f32, for one tile of rows and one split of its keys. Eight neighbouring lanes
// share a few rows: in S = Q K^T each works on every eighth key, in O = P V on every eighth dimension.
#pragma once

#include "common/ptx.cuh"
#include "common/repair.cuh"
#include "common/scores.cuh"
#include "simt/tiles.h"

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

/// The rows that a thread shares, and what they have come to.
template <int dim>
struct Mine {
  static constexpr int rows = simt::rows(dim) / (threads / lanes);
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

/// The keys that some row of the block attends.
template <int dim>
__device__ inline Interval attended_by_block(const Mine<dim> &mine) {
  __shared__ int low, high;
  if (threadIdx.x == 0) low = INT32_MAX, high = 0;
  __syncthreads();
  for (const RowScores &row : mine.scores) {
    if (row.keys.low >= row.keys.high) continue;
    atomicMin(&low, row.keys.low);
    atomicMax(&high, row.keys.high);
  }
  __syncthreads();
  return {low, high};
}

/// S = Q K^T, scaled, masked; then m' = max(m, rowmax S); P = e^(S - m'); l = l a + rowsum P; O = O a.
template <int dim>
__device__ inline void weigh(const Params &p, const Shared<dim> &shared, Mine<dim> &mine, int32_t key) {
  constexpr int columns = keys(dim) / lanes;
  float s[Mine<dim>::rows][columns] = {};
#pragma unroll 4
  for (int d = 0; d < p.head_dim; ++d) {
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      const float k = shared.kv[mine.lane + c * lanes][d];
#pragma unroll
      for (int i = 0; i < mine.rows; ++i) s[i][c] += shared.q[mine.first + i][d] * k;
    }
  }
#pragma unroll
  for (int i = 0; i < mine.rows; ++i) {
    Softmax &softmax = mine.softmax[i];
    bool attends[columns];
    float max = softmax.max, sum = 0;
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      s[i][c] = finished_score(p, mine.scores[i], s[i][c], key + mine.lane + c * lanes, &attends[c]);
      max = fmaxf(max, s[i][c]);
    }
    max = max_over_lanes<lanes>(max);
    const float finite = finite_max(max), rescale = weight_of(softmax.max - finite);
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      // A masked key has the weight -0, which tells it from one whose weight is too small for a float.
      const float weight = attends[c] ? weight_of(s[i][c] - finite) : -0.0f;
      shared.p[mine.first + i][mine.lane + c * lanes] = weight;
      sum += weight;
    }
    softmax = {max, softmax.sum * rescale + sum_over_lanes<lanes>(sum)};
#pragma unroll
    for (float &o : mine.o[i]) o *= rescale;
  }
}

/// O = O + P V. With special values masked keys are left out, as 0 times NaN is not 0.
template <int dim, bool special>
__device__ inline void accumulate(const Shared<dim> &shared, Mine<dim> &mine) {
#pragma unroll 1
  for (int e = 0; e < keys(dim); ++e) {
#pragma unroll
    for (int i = 0; i < mine.rows; ++i) {
      const float weight = shared.p[mine.first + i][e];
      if (special && signbit(weight)) continue;
#pragma unroll
      for (int d = 0; d < mine.dims; ++d) mine.o[i][d] += weight * shared.kv[e][mine.lane + d * lanes];
    }
  }
}

/// Writes the rows' results, or what is to be combined with other splits' keys.
template <int dim>
__device__ inline void store(const Params &p, const Work &w, const Mine<dim> &mine, Interval split) {
  const bool whole = p.schedule.num_splits == 1;
#pragma unroll
  for (int i = 0; i < mine.rows; ++i) {
    if (w.first_row + mine.first + i >= w.rows) break;
    const Row row = row_at(p, w, w.first_row + mine.first + i);
    const int64_t partial_row = w.partial_row + mine.first + i;
    const float factor = whole ? finish_row(p, w.sequence, row, mine.softmax[i], mine.lane == 0) : 1;
    if (!whole && mine.lane == 0) store_partial(p, partial_row, mine.softmax[i]);
    char *out = out_row(p, w.sequence, row);
#pragma unroll
    for (int d = 0; d < mine.dims; ++d) {
      const int at = mine.lane + d * lanes;
      if (at >= p.head_dim_v) break;
      const float sum = mine.o[i][d];
      float special = 0;
      if (!is_finite(sum) && is_finite(mine.softmax[i].sum)) {
        const Interval keys = mine.scores[i].keys;
        special = special_value(p, w, row, {max(keys.low, split.low), min(keys.high, split.high)}, at);
      }
      if (whole) {
        store_element(out + at * p.out.stride[3], p.out_dtype, finished(sum, special, factor, mine.softmax[i]));
      } else {
        p.partial_values[partial_row * p.head_dim_v + at] = special == 0 ? sum : special;
      }
    }
  }
}

template <int dim>
__device__ inline void forward(const Params &p, float *memory) {
  griddepcontrol_launch_dependents();
  const Work w = work_of_block(p, rows(dim));
  if (w.rows == 0) return;

  const Shared<dim> shared(memory);
  Mine<dim> mine;
#pragma unroll
  for (int i = 0; i < mine.rows; ++i) {
    const int r = w.first_row + mine.first + i;
    mine.scores[i] = row_scores(p, w.sequence, row_at(p, w, min(r, w.rows - 1)));
    if (r >= w.rows) mine.scores[i].keys = {0, 0};
  }
  load_rows<dim>(
      shared.q, rows(dim), [&](int r) { return q_row(p, w.sequence, row_at(p, w, min(w.first_row + r, w.rows - 1))); },
      p.head_dim, p.q.stride[3], p.q_dtype);
  const Interval split = keys_of_split(p, w.sequence, w.split, keys(dim));
  const Interval all = attended_by_block(mine);
  const int end = min(split.high, all.high);

  // Blocks of keys count from key 0, so that a row's bits do not depend on where its tile begins.
  for (int j = max(split.low, all.low) / keys(dim) * keys(dim); j < end; j += keys(dim)) {
    const auto row_of = [&](const View &view) {
      return [&](int r) { return j + r < end ? key_row(p, view, w.sequence, j + r, w.kv_head) : nullptr; };
    };
    load_rows<dim>(shared.kv, keys(dim), row_of(p.k), p.head_dim, p.k.stride[3], p.kv_dtype);
    __syncthreads();
    weigh<dim>(p, shared, mine, j);
    __syncthreads();
    const bool special = load_rows<dim>(shared.kv, keys(dim), row_of(p.v), p.head_dim_v, p.v.stride[3], p.kv_dtype);
    if (__syncthreads_or(special)) {
      accumulate<dim, true>(shared, mine);
    } else {
      accumulate<dim, false>(shared, mine);
    }
    __syncthreads();
  }
  store(p, w, mine, split);
}

}  // namespace fa::kernels::simt
