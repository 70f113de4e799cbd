// The gradients of a tile of keys and of their values, over all queries that attend them. Sums are those of one order
// of queries, whatever the grid.
#pragma once

#include "backward/mma/dq_accumulate.cuh"
#include "backward/mma/keys_pass.cuh"
#include "backward/mma/query_stream.cuh"

namespace fa::kernels::backward_mma {

template <class B>
__device__ inline KeyWorkTile work_of_block(const BackwardParams &p, const SharedMemory<B> &shared) {
  if constexpr (B::sums_queries) return take_key_work_tile(p, B::rows, &shared.state->ticket);
  if constexpr (!B::sums_queries) return get_initial_key_work_tile(p, B::rows);
}

template <class B>
__device__ inline void keys_pass(const BackwardParams &p) {
  extern __shared__ __align__(128) char memory[];
  const SharedMemory<B> shared(memory);
  const KeyWorkTile w = work_of_block(p, shared);
  if (w.entry < 0) return;
  const Sequence s = sequence(p, w.entry);
  if (w.first >= s.keys) return;
  const int end = min(w.first + B::rows, s.keys);
  const int group = p.heads_q / p.heads_kv, first_head = w.kv_head * group;
  BlockState<B> &state = *shared.state;
  if (threadIdx.x == 0) {
    const Interval queries = attending(p, s, w.first, end);
    state.sequence = s, state.work = w;
    state.group = group;
    // Where dq is summed, rows of keys that do not exist must weigh nothing: a masked step, as their weights may be
    // infinite.
    const bool partial = B::sums_queries && end < w.first + B::rows;
    state.full = p.has_score_mod || partial ? Interval{0, 0} : full_query_range(p, s, w.first, end);
    state.tiles = tiles_of<B>(queries);
    state.row_terms = p.row_stats + first_term(p, s, first_head);
    state.streamed[0] = head_rows(p.q, q_batch(p, s), s.q_first, first_head);
    state.streamed[1] = head_rows(p.dout, q_batch(p, s), s.q_first, first_head);
    const StreamCoord at = {0, state.tiles.high - 1};
    state.steps[0] = step_at(p, state, at);
    state.steps[1] = step_at(p, state, after(at, group));
    if constexpr (B::sums_queries) {
      const int64_t row = first_term(p, s, first_head);
      const Interval before = attending(p, s, max(w.first - B::rows, 0), w.first);
      state.dq_semaphore = {p.dq_accum + row * B::dim,
                            p.dq_semaphore ? p.dq_semaphore + row / dq_semaphore_rows : nullptr,
                            w.first / B::rows,
                            w.first == 0 ? Interval{0, 0} : tiles_of<B>(before),
                            nullptr,
                            nullptr,
                            nullptr,
                            0,
                            0};
    }
  }
  __syncthreads();

  KeysPass<B> pass(p, shared);
  Ring<B> ring(p, shared);
  [[maybe_unused]] const DqAccumulator<B> dq(p, shared);
  if (!state.tiles.empty()) {
    const char *const k = head_rows(p.k, s.k_batch, s.k_first, w.kv_head);
    const char *const v = head_rows(p.v, s.k_batch, s.k_first, w.kv_head);
    copy_owned<B>(shared.own(0), k, p.k, p.head_dim, w.first, end);
    copy_owned<B>(shared.own(1), v, p.v, p.head_dim_v, w.first, end);
    fetch_queries<B>(state, ring, 0);
    pass.keep();
  }
  int n = 0;
#pragma unroll 1
  while (state.steps[n & 3].left > 0) {
    ring.arrive(B::stage(n));
    bool without_keys = false;
    if (threadIdx.x < B::columns) {  // which this thread has copied
      float &neg_lse_log2 = state.terms[n & 1].neg_lse_log2[threadIdx.x];
      without_keys = neg_lse_log2 == -infinity;
      if constexpr (B::halves) neg_lse_log2 -= 1;
    }
    const bool uneven = threadIdx.x == 0 && pass.is_uneven(n);
    if constexpr (B::sums_queries) dq.before_barrier();
    const bool masked = __syncthreads_or(without_keys || uneven) || !state.steps[n & 3].whole;
    if (state.steps[(n + 1) & 3].left > 0) fetch_queries<B>(state, ring, n + 1);
    if constexpr (B::sums_queries) dq.after_barrier();
    bool odd = false;
    if (masked) {
      odd = pass.template step<true>(n);
    } else {
      pass.template step<false>(n);
    }
    if (threadIdx.x == 0) {
      state.steps[(n + 2) & 3] = step_at(p, state, after(state.steps[(n + 1) & 3].at, state.group));
      if constexpr (B::sums_queries) dq.note(state.steps[n & 3].at, odd);
    }
    if (B::stages == 1) __syncthreads();
    n++;
  }
  if constexpr (B::sums_queries) dq.finish();
  __syncthreads();  // the tiles are free
  pass.store();
}

}  // namespace fa::kernels::backward_mma
