// A tile of queries and a tile of keys that meet: their products S = Q K^T and dP = dO V^T, and from these the weights
// P and the gradients of scores dS, of which every entry point makes its sums. Eight neighbouring lanes share two rows.
#pragma once

#include "backward/simt/tiles.h"
#include "collective/backward_tile_scheduler.cuh"
#include "collective/block_mask.cuh"
#include "collective/score_mod.cuh"
#include "common/lanes.cuh"
#include "common/unroll.cuh"

namespace fa::kernels::backward_simt {

constexpr int groups = threads / lanes;

/// Rows of a tile that a thread shares, and keys lane, lane + 8, ... of it.
constexpr int thread_rows = rows / groups, thread_keys = keys / lanes;

/// The shared memory of a block.
struct Shared {
  float (*queries)[part + 1];  // [rows]: a part of q or of dout
  float (*values)[part + 1];   // [keys]: a part of k or of v
  float (*p)[keys + 1];        // [rows]: weights
  float (*ds)[keys + 1];       // [rows]: gradients of scores

  __device__ explicit Shared(float *memory)
      : queries(reinterpret_cast<float (*)[part + 1]>(memory)),
        values(queries + rows),
        p(reinterpret_cast<float (*)[keys + 1]>(values + backward_simt::keys)),
        ds(p + rows) {}
};

/// A tile of queries and a tile of keys. Rows and keys outside the sequence do not exist.
struct TilePair {
  Sequence sequence;
  int32_t head, kv_head;
  int32_t first_query, first_key;

  __device__ bool has_query(int32_t r) const { return first_query + r < sequence.queries; }
  __device__ bool has_key(int32_t j) const { return first_key + j >= 0 && first_key + j < sequence.keys; }

  /// The address of row r of a tensor shaped as q or out; null for none.
  __device__ const char *query_row(const BackwardParams &p, const View &view, int32_t r) const {
    if (!has_query(r)) return nullptr;
    return view.data + q_batch(p, sequence) * view.stride[0] +
           int64_t(sequence.q_first + first_query + r) * view.stride[1] + head * view.stride[2];
  }
  __device__ const char *key_row(const BackwardParams &p, const View &view, int32_t j) const {
    return has_key(j) ? kernels::key_row(p, view, sequence, first_key + j, kv_head) : nullptr;
  }
};

/// Whether mask or bias hides all of it. By every warp for itself.
__device__ inline bool is_hidden(const BackwardParams &p, const TilePair &pair) {
  return hides_block<keys>(
      p, pair.sequence,
      [&](int r) {
        return Row{pair.first_query + r, pair.head};
      },
      min(rows, pair.sequence.queries - pair.first_query), pair.first_key);
}

/// Elements first .. first + part - 1 of n rows into shared memory; 0 for those past dim and of rows that do not exist.
/// Those that are not finite are 0 too where `finite`: weights of masked pairs are 0, and 0 * NaN is not.
template <bool finite, class F>
__device__ inline void load_part(float (*to)[part + 1], int n, F row, int first, int dim, int64_t stride,
                                 int32_t dtype) {
  for (int r = threadIdx.x / 32; r < n; r += threads / 32) {
    const char *from = row(r);
#pragma unroll
    for (int d = threadIdx.x % 32; d < part; d += 32) {
      float x = from && first + d < dim ? load_element(from + (first + d) * stride, dtype) : 0;
      if (finite && !is_finite(x)) x = 0;
      to[r][d] = x;
    }
  }
}

/// The tensors that a part of a pair's rows is loaded from. All threads are done with the part before.
template <bool finite>
__device__ inline void load_queries(const BackwardParams &p, const TilePair &pair, const Shared &shared, bool dout,
                                    int first) {
  const View &view = dout ? p.dout : p.q;
  load_part<finite>(
      shared.queries, rows, [&](int r) { return pair.query_row(p, view, r); }, first, dout ? p.head_dim_v : p.head_dim,
      view.stride[3], dout ? p.dout_dtype : p.q_dtype);
}
template <bool finite>
__device__ inline void load_keys(const BackwardParams &p, const TilePair &pair, const Shared &shared, bool values,
                                 int first) {
  const View &view = values ? p.v : p.k;
  load_part<finite>(
      shared.values, keys, [&](int j) { return pair.key_row(p, view, j); }, first, values ? p.head_dim_v : p.head_dim,
      view.stride[3], p.kv_dtype);
}

using Products = float[thread_rows][thread_keys];

/// S = Q K^T, or dP = dO V^T.
__device__ inline void multiply(Products &s, const BackwardParams &p, const TilePair &pair, const Shared &shared,
                                bool gradients) {
  const int dim = gradients ? p.head_dim_v : p.head_dim;
  const int row = threadIdx.x / lanes * thread_rows, lane = threadIdx.x % lanes;
#pragma unroll 1
  for (int first = 0; first < dim; first += part) {
    load_queries<false>(p, pair, shared, gradients, first);
    load_keys<false>(p, pair, shared, gradients, first);
    __syncthreads();
    const int count = min(part, dim - first);
#pragma unroll 4
    for (int d = 0; d < count; d++) {
      unroll<thread_keys>([&](int c) {
        const float x = shared.values[lane + c * lanes][d];
        unroll<thread_rows>([&](int i) { s[i][c] += shared.queries[row + i][d] * x; });
      });
    }
    __syncthreads();
  }
}

/// The weight of a score, and its gradient.
struct PdS {
  float p = 0;   // NaN where the gradient is not finite, as dv is a sum over finite elements of rows
  float dx = 0;  // after the softcap
  float dy = 0;  // before it
};

/// P and dS of a pair; all exactly 0 where the pair is not attended, or its score is -inf.
__device__ inline PdS weigh(const BackwardParams &p, const RowScores &row, const RowStats &terms, float product,
                            float dp, int32_t key) {
  if (terms.neg_lse_log2 == -infinity) return {};
  const Score score(p, row, product, key);
  if (score.value() == -infinity) return {};
  // lse may belong to other scores: weights of finite ones stay finite.
  constexpr float most = 0x1.fffffep6f;  // below 128
  const float exponent = fmaf(score.x, log2_e, terms.neg_lse_log2);
  const float weight = exp2f(exponent > most && score.x < infinity ? most : exponent);
  const float dx = weight * (dp + terms.neg_dpsum);
  // A product that is not finite makes dq and dk NaN by elements that count as 0 there, also where its score is finite.
  return {weight + (dx - dx), dx, fmaf(product, 0.f, dx * score.derivative)};
}

/// The rows that a thread shares, as weigh reads them.
struct ThreadRows {
  RowScores scores[thread_rows];
  RowStats terms[thread_rows];

  __device__ ThreadRows(const BackwardParams &p, const TilePair &pair) {
    const RowStats *of_head = p.row_stats + first_term(p, pair.sequence, pair.head);
    unroll<thread_rows>([&](int i) {
      const int32_t query = pair.first_query + int(threadIdx.x) / lanes * thread_rows + i;
      const int32_t there = min(query, pair.sequence.queries - 1);
      scores[i] = row_scores(p, pair.sequence, {there, pair.head});
      terms[i] = of_head[there];
      if (query != there) terms[i].neg_lse_log2 = -infinity;
    });
  }
};

/// Calls f(i, c, weighed) for the scores of this thread.
template <class F>
__device__ inline void each_score(const BackwardParams &p, const TilePair &pair, const ThreadRows &thread,
                                  const Shared &shared, F f) {
  Products s = {}, dp = {};
  multiply(s, p, pair, shared, false);
  multiply(dp, p, pair, shared, true);
  unroll<thread_rows>([&](int i) {
    unroll<thread_keys>([&](int c) {
      const int32_t key = pair.first_key + int(threadIdx.x) % lanes + c * lanes;
      f(i, c, weigh(p, thread.scores[i], thread.terms[i], s[i][c], dp[i][c], key));
    });
  });
}

/// Weights and gradients of scores into shared memory, which other threads see after the next barrier.
__device__ inline void compute_p_ds(const BackwardParams &p, const TilePair &pair, const ThreadRows &thread,
                                    const Shared &shared) {
  const int row = threadIdx.x / lanes * thread_rows, lane = threadIdx.x % lanes;
  each_score(p, pair, thread, shared, [&](int i, int c, const PdS &weighed) {
    shared.p[row + i][lane + c * lanes] = weighed.p;
    shared.ds[row + i][lane + c * lanes] = weighed.dy;
  });
}

/// Adds x to, or stores it in, an element of a gradient.
__device__ inline void put(char *to, int32_t dtype, bool add, float x) {
  store_element(to, dtype, add ? *reinterpret_cast<const float *>(to) + x : x);
}

}  // namespace fa::kernels::backward_simt
