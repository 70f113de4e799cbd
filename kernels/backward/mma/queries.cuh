// The gradients of a tile of queries, over all keys that they attend: QueriesPass::step has the lines.
#pragma once

#include "backward/mma/grad_scale.cuh"
#include "backward/mma/load.cuh"
#include "backward/mma/products.cuh"
#include "backward/mma/scores.cuh"
#include "backward/mma/store.cuh"
#include "collective/key_blocks.cuh"

namespace fa::kernels::backward_mma {

/// Notes which keys each row attends, none of a row whose lse is -inf, and finds the tiles that hold any. By every warp
/// for itself, all rows.
template <class B>
__device__ inline KeyBlockRange key_block_range(const BackwardParams &p, const WorkTile &w, const RowStats *terms,
                                                BlockState<B> *state) {
  KeysOfRows rows;
#pragma unroll 1
  for (int r = threadIdx.x % 32; r < B::rows; r += 32) {
    Interval keys = {0, 0};
    const int query = w.first_row + r;
    if (query < w.rows) {
      if (terms[query].neg_lse_log2 != -infinity) keys = attended(p, w.sequence, query);
      rows.add(keys);
    }
    if (r / B::warp_rows == int(threadIdx.x / 32)) state->attended[r] = keys;
  }
  rows.reduce_over_warp();
  if (rows.empty()) return {0, 0, 0, 0};
  const auto up = [](int keys) { return int((uint32_t(keys) + B::columns - 1) / B::columns); };
  return {rows.low / B::columns, up(rows.high), p.has_score_mod ? INT_MAX : up(rows.full_low),
          rows.full_high / B::columns};
}

template <class B>
struct QueriesPass {
  using Scores = typename B::Scores;
  using Rows = typename B::Rows;

  const BackwardParams &p;
  const SharedMemory<B> &shared;
  const WorkTile &w;
  GradScale<B> factors;
  RegOperand<B> kept[2];  // queries, gradients of their results
  typename B::Sums sum;   // dQ

  __device__ QueriesPass(const BackwardParams &params, const SharedMemory<B> &memory)
      : p(params), shared(memory), w(memory.state->work) {
    sum.clear();
  }

  /// Waits for the block's tiles.
  __device__ void keep() {
    if constexpr (B::kept_blocks > 0) {
      cp_async_wait_group<0>();
      __syncthreads();
      unroll<2>([&](int which) { kept[which].load(shared.own(which)); });
    }
  }

  /// dS = P (dP - delta) in place of dP, with P = 2^(c S - lse).
  template <bool Masked>
  __device__ void differentiate(const Scores &s, Scores &x, int tile) const {
    if (Masked && p.softcap > 0) {
      differentiate<Masked, true>(s, x, tile);
    } else {
      differentiate<Masked, false>(s, x, tile);
    }
  }
  template <bool Masked, bool Capped>
  __device__ void differentiate(const Scores &s, Scores &x, int tile) const {
    const int thread = B::thread(), row = B::row_of(thread, 0);
    const int first = tile * B::columns + Scores::first_column(thread % 32);
    const ScoreModBwd rule(p, w.sequence, w.head_group);
    const float distance = float(w.first_row + row + w.sequence.offset - first);  // of the lane's first score
    unroll<Rows::rows>([&](int r) {
      const int query = min(w.first_row + row + 8 * r, w.rows - 1);  // later rows' results are not stored
      RowStats t = shared.state->row_terms[query];
      if constexpr (B::halves) t.neg_lse_log2 -= 1;
      const Interval keys = Masked ? shared.state->attended[row + 8 * r] : Interval{0, 0};
      x.for_each_in_row(r, [&](float &d, int column) {
        const float product = s.at(r, column);
        if constexpr (Masked) {
          float weight;
          rule.template weigh<Capped>(product, t.neg_lse_log2, distance + float(8 * r - column), &weight);
          d = keys.holds(first + column) ? weight * (d + t.neg_dpsum) : 0;
        } else {
          d = ex2_approx_ftz(fmaf(product, rule.scale_2, t.neg_lse_log2)) * (d + t.neg_dpsum);
        }
      });
    });
  }

  template <bool Masked>
  __device__ void step(int stage, int tile) {
    Scores s, x;
    s.clear(), x.clear();
    multiply_rows<B>(s, shared.own(0), kept[0], shared.slot(stage, 0));  // S = Q K^T
    multiply_rows<B>(x, shared.own(1), kept[1], shared.slot(stage, 1));  // dP = dO V^T
    const bool odd = Masked && __syncthreads_or(any_nonfinite<B>(s) || any_nonfinite<B>(x));
    differentiate<Masked>(s, x, tile);  // dS = P (dP - delta), P = 2^(c S - lse)
    if (Masked && odd) {
      clear_nonfinite<B>(shared.slot(stage, 0));
      __syncthreads();
    }
    factors.apply(x, sum);
    add_weighted<B>(sum, x, shared.slot(stage, 0));  // dQ += dS K
  }
};

template <class B>
__device__ inline void queries_pass(const BackwardParams &p) {
  extern __shared__ __align__(128) char memory[];
  const SharedMemory<B> shared(memory);
  const WorkTile work = get_initial_work_tile(p, B::rows);
  if (work.rows == 0) return;
  const Sequence &of = work.sequence;
  const RowStats *const terms = p.row_stats + first_term(p, of, work.head_group);
  const KeyBlockRange tiles = key_block_range<B>(p, work, terms, shared.state);
  if (threadIdx.x == 0) {
    BlockState<B> &state = *shared.state;
    state.work = work, state.row_terms = terms;
    state.full = {tiles.full_first, tiles.full_end}, state.tiles = {tiles.first, tiles.end};
    state.streamed[0] = head_rows(p.k, of.k_batch, of.k_first, work.kv_head);
    state.streamed[1] = head_rows(p.v, of.k_batch, of.k_first, work.kv_head);
  }
  __syncthreads();
  const WorkTile &w = shared.state->work;
  const Sequence &s = w.sequence;

  QueriesPass<B> pass(p, shared);
  Ring<B> ring(p, shared);
  if (tiles.first < tiles.end) {
    const char *const q = head_rows(p.q, q_batch(p, s), s.q_first, w.head_group);
    const char *const dout = head_rows(p.dout, q_batch(p, s), s.q_first, w.head_group);
    copy_owned<B>(shared.own(0), q, p.q, p.head_dim, w.first_row, w.rows);
    copy_owned<B>(shared.own(1), dout, p.dout, p.head_dim_v, w.first_row, w.rows);
    ring.fetch(0, shared.state->streamed, (tiles.end - 1) * B::columns, s.keys);
    pass.keep();
  }
  int stage = 0;
#pragma unroll 1
  for (int tile = tiles.end - 1, first; tile >= (first = shared.state->tiles.low); tile--) {
    ring.arrive(stage);
    __syncthreads();
    const auto fetch_next = [&] {
      if (tile > first)
        ring.fetch(B::stages == 2 ? 1 - stage : 0, shared.state->streamed, (tile - 1) * B::columns, s.keys);
    };
    if (B::fetches_ahead) fetch_next();
    if (shared.state->full.holds(tile)) {
      pass.template step<false>(stage, tile);
    } else {
      pass.template step<true>(stage, tile);
    }
    if (B::stages == 1) __syncthreads();
    if (!B::fetches_ahead) fetch_next();
    if (B::stages == 2) stage = 1 - stage;
  }
  __syncthreads();  // the tiles are free
  const Gradient dq(p.dq, p.dq_dtype, p.accumulate & accumulate_dq, q_batch(p, s), int64_t(s.q_first) + w.first_row,
                    w.head_group);
  store_sums<B>(shared, dq, pass.sum, w.rows - w.first_row, p.head_dim,
                [&](int r) { return p.scale * pass.factors.inverse(r); });
}

}  // namespace fa::kernels::backward_mma
