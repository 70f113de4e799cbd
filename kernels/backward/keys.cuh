// The gradients of a tile of keys and of their values, over all queries that attend them: KeysPass::step has the lines.
// Sums are those of one order of queries, whatever the grid.
#pragma once

#include <type_traits>

#include "backward/factors.cuh"
#include "backward/load.cuh"
#include "backward/products.cuh"
#include "backward/scores.cuh"
#include "backward/store.cuh"
#include "common/mbarrier.cuh"

namespace fa::kernels::backward {

/// The queries that attend all keys first .. end - 1 of a sequence.
__device__ inline Interval attending_all(const BackwardParams &p, const Sequence &s, int32_t first, int32_t end) {
  if (!p.bounded) return {0, s.queries};
  const int64_t last = int64_t(end) - 1;
  int64_t low = s.offset, high = s.queries + s.offset;  // of positions
  if (p.causal) low = max(low, last);
  if (p.window_right >= 0) low = max(low, last - p.window_right);
  if (p.window_left >= 0) high = min(high, first + p.window_left + 1);
  if (p.chunk > 0) {
    if (first / p.chunk != last / p.chunk) return {0, 0};
    low = max(low, first / p.chunk * p.chunk);
    high = min(high, (first / p.chunk + 1) * p.chunk);
  }
  return low < high ? Interval{int32_t(low - s.offset), int32_t(high - s.offset)} : Interval{0, 0};
}

/// What the warps of a pair hand each other: a number for each score, a lane's to the same lane.
template <class B>
class Exchange {
 public:
  static constexpr int blocks = B::Scores::column_blocks;

  __device__ explicit Exchange(uint32_t memory)
      : at_(memory + (B::team(threadIdx.x / 32) * B::row_blocks * blocks * 32 + threadIdx.x % 32) * 16) {}

  __device__ void put(int i, int j, const Accumulator &x) const {
    st_shared_v4_b32(
        at(i, j), {__float_as_uint(x.x[0]), __float_as_uint(x.x[1]), __float_as_uint(x.x[2]), __float_as_uint(x.x[3])});
  }
  __device__ Accumulator get(int i, int j) const {
    const uint4 x = ld_shared_v4_b32(at(i, j));
    return {{__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)}};
  }

  /// The value warp goes on; the key warp waits for it.
  __device__ static void show() { bar_arrive(1 + B::team(threadIdx.x / 32), 64); }
  __device__ static void await() { bar_sync(1 + B::team(threadIdx.x / 32), 64); }

 private:
  __device__ uint32_t at(int i, int j) const { return at_ + (i * blocks + j) * 32 * 16; }

  uint32_t at_;
};

/// A tile of queries of a head of the group. The tiles of a head follow one another, then those of the next head.
struct Place {
  int head, tile;
};

__device__ inline Place after(Place at, Interval tiles) {
  return at.tile + 1 < tiles.high ? Place{at.head, at.tile + 1} : Place{at.head + 1, tiles.low};
}

template <class B>
struct KeysPass {
  using Scores = typename B::Scores;

  const BackwardParams &p;
  const SharedMemory<B> &shared;
  const Sequence &s;
  const KeyWork &w;
  Factors<B> factors;
  typename B::Sums sum;  // of a value warp dV, of a key warp dK

  __device__ KeysPass(const BackwardParams &params, const SharedMemory<B> &memory)
      : p(params), shared(memory), s(memory.state->sequence), w(memory.state->work) {
    sum.clear();
  }

  __device__ static bool of_keys() { return B::of_keys(mov_tid_x() / 32); }

  /// A lane's terms of columns 8 j and 8 j + 1.
  struct TermsPair {
    RowTerms of[2];
  };
  __device__ TermsPair terms(int stage, int j) const {
    const int column = 8 * j + Scores::first_column(mov_tid_x() & 31);
    const uint4 x = ld_shared_v4_b32(shared_address(&shared.state->terms[stage][column]));
    return {{{__uint_as_float(x.x), __uint_as_float(x.y)}, {__uint_as_float(x.z), __uint_as_float(x.w)}}};
  }

  /// P^T = 2^(c S^T - lse) in place of S^T, and the key warp gets it, as factors of gradients of the products.
  template <bool Masked>
  __device__ void weigh(Scores &x, int stage, Place at) const {
    const int thread = mov_tid_x() & 0x3ff, first_column = Scores::first_column(thread % 32);
    const Exchange<B> exchange(shared.exchange());
    const ScoreRule rule(p, s, w.kv_head * (p.heads_q / p.heads_kv) + at.head);
    const int first_key = w.first + B::row_of(thread, 0);
    const float distance =
        float(at.tile * B::columns + first_column + s.offset - first_key);  // of the lane's first score
    unroll<Scores::column_blocks>([&](int j) {
      const TermsPair t = terms(stage, j);
      unroll<B::row_blocks>([&](int i) {
        Accumulator &block = x.block[i][j];
        Accumulator given;
        unroll<4>([&](int e) {
          const float minus_lse_2 = t.of[e % 2].minus_lse2;
          if constexpr (Masked) {
            const int row = 16 * i + e / 2 * 8, column = 8 * j + e % 2;  // further than the first
            const float weight = rule.weigh(block.x[e], minus_lse_2, distance + float(column - row), &given.x[e]);
            const bool attends = shared.state->attended[first_column + column].holds(first_key + row);
            block.x[e] = attends ? weight : no_weight;
            given.x[e] = attends ? given.x[e] : no_weight;
          } else {
            block.x[e] = given.x[e] = ex2_approx_ftz(fmaf(block.x[e], rule.scale_2, minus_lse_2));
          }
        });
        exchange.put(i, j, given);
      });
    });
    exchange.show();
  }

  /// dS^T = P^T (dP^T - delta) in place of dP^T.
  template <bool Masked>
  __device__ void differentiate(Scores &x, int stage) const {
    const Exchange<B> exchange(shared.exchange());
    exchange.await();
    unroll<Scores::column_blocks>([&](int j) {
      const TermsPair t = terms(stage, j);
      unroll<B::row_blocks>([&](int i) {
        const Accumulator given = exchange.get(i, j);
        unroll<4>([&](int e) {
          const float d = given.x[e] * (x.block[i][j].x[e] - t.of[e % 2].delta);
          x.block[i][j].x[e] = Masked && !attends(given.x[e]) ? 0 : d;
        });
      });
    });
  }

  /// The keys that each query of a tile attends; none of a row without keys.
  __device__ void note_attended(int stage, int tile) {
    if (threadIdx.x >= B::columns) return;
    const int query = tile * B::columns + threadIdx.x;
    const bool any = query < s.queries && shared.state->terms[stage][threadIdx.x].minus_lse2 != -infinity;
    shared.state->attended[threadIdx.x] = any ? attended(p, s, query) : Interval{0, 0};
  }

  /// Clears what is not finite in a slot, and what is not in gradients shows in weights: dV takes it from there.
  __device__ void repair(Scores &x, int stage) const {
    const Exchange<B> exchange(shared.exchange());
    const auto for_each_block = [&](auto f) {
      unroll<Scores::column_blocks>([&](int j) { unroll<B::row_blocks>([&](int i) { f(i, j); }); });
    };
    if (of_keys()) {
      for_each_block([&](int i, int j) {
        Accumulator zero;
        unroll<4>([&](int e) { zero.x[e] = x.block[i][j].x[e] - x.block[i][j].x[e]; });
        exchange.put(i, j, zero);
      });
    }
    clear_nonfinite<B>(shared.slot(stage, 0));
    clear_nonfinite<B>(shared.slot(stage, 1));
    __syncthreads();
    if (!of_keys()) {
      for_each_block([&](int i, int j) {
        const Accumulator zero = exchange.get(i, j);
        unroll<4>([&](int e) { x.block[i][j].x[e] += zero.x[e]; });
      });
    }
  }

  template <bool Masked>
  __device__ void step(int stage, Place at) {
    const int keys = of_keys();
    if constexpr (Masked) note_attended(stage, at.tile);
    Scores x;
    multiply_rows<B>(x, shared.own(keys), shared.slot(stage, keys));  // S^T = K Q^T     dP^T = V dO^T
    const bool odd = Masked && __syncthreads_or(any_nonfinite<B>(x));
    if (keys) {
      differentiate<Masked>(x, stage);  //                                               dS^T = P^T (dP^T - delta)
    } else {
      weigh<Masked>(x, stage, at);  // P^T = 2^(c S^T - lse)
    }
    if (Masked && odd) repair(x, stage);
    factors.apply(x, sum);
    add_weighted<B>(sum, x, shared.slot(stage, 1 - keys));  // dV += P^T dO              dK += dS^T Q
  }

  __device__ void store() const {
    const int keys = min(B::rows, s.keys - w.first);
    if (of_keys() && p.dk.data) {
      const Gradient dk(p.dk, p.dk_dtype, p.accumulate & accumulate_dk, s.k_batch, int64_t(s.k_first) + w.first,
                        w.kv_head);
      store_sums<B>(shared, dk, sum, keys, p.head_dim, [&](int r) { return p.scale * factors.inverse(r); });
    } else if (!of_keys() && p.dv.data) {
      const Gradient dv(p.dv, p.dv_dtype, p.accumulate & accumulate_dv, s.k_batch, int64_t(s.k_first) + w.first,
                        w.kv_head);
      store_sums<B>(shared, dv, sum, keys, p.head_dim_v, [&](int r) { return factors.inverse(r); });
    }
  }
};

/// Begins to copy a tile's rows, and loads what stands beside one of them.
template <class B>
__device__ inline RowTerms fetch_queries(const BackwardParams &p, const BlockState<B> &state, Ring<B> &ring, int stage,
                                         Place at) {
  ring.fetch(stage, at.head, at.tile * B::columns, state.sequence.queries);
  RowTerms terms = {};
  if (threadIdx.x < B::columns)
    terms = state.row_terms[at.head * p.terms_rows + (at.tile * B::columns + int(threadIdx.x))];
  return terms;
}

template <class B>
__device__ inline void keys_pass(const BackwardParams &p) {
  extern __shared__ __align__(128) char memory[];
  const SharedMemory<B> shared(memory);
  const KeyWork w = key_work_of_block(p, B::rows);
  if (w.entry < 0) return;
  const Sequence s = sequence(p, w.entry);
  if (w.first >= s.keys) return;
  const int end = min(w.first + B::rows, s.keys);
  const int group = p.heads_q / p.heads_kv, first_head = w.kv_head * group;
  BlockState<B> &state = *shared.state;
  if (threadIdx.x == 0) {
    const Interval queries = attending(p, s, w.first, end);
    state.sequence = s, state.work = w;
    state.full = p.scored ? Interval{0, 0} : attending_all(p, s, w.first, end);
    state.tiles = {queries.low / B::columns, (queries.high + B::columns - 1) / B::columns};
    state.row_terms = p.terms + first_term(p, s, first_head);
    state.walked[0] = head_rows(p.q, q_batch(p, s), s.q_first, first_head);
    state.walked[1] = head_rows(p.dout, q_batch(p, s), s.q_first, first_head);
  }
  __syncthreads();

  KeysPass<B> pass(p, shared);
  Ring<B> ring(p, shared);
  Place at = {0, state.tiles.low};
  if (state.tiles.empty()) at.head = group;
  RowTerms terms;
  if (at.head < group) {
    const char *const k = head_rows(p.k, s.k_batch, s.k_first, w.kv_head);
    const char *const v = head_rows(p.v, s.k_batch, s.k_first, w.kv_head);
    copy_owned<B>(shared.own(0), k, p.k, p.head_dim, w.first, end);
    copy_owned<B>(shared.own(1), v, p.v, p.head_dim_v, w.first, end);
    terms = fetch_queries<B>(p, state, ring, 0, at);
  }
  int stage = 0;
#pragma unroll 1
  while (at.head < group) {
    ring.arrive(stage);
    if (threadIdx.x < B::columns) state.terms[stage][threadIdx.x] = terms;
    const bool without_keys = threadIdx.x < B::columns && terms.minus_lse2 == -infinity;
    const bool masked = __syncthreads_or(without_keys) || at.tile * B::columns < state.full.low ||
                        (at.tile + 1) * B::columns > state.full.high;
    const Place next = after(at, state.tiles);
    if (next.head < group) terms = fetch_queries<B>(p, state, ring, B::stages == 2 ? 1 - stage : 0, next);
    if (masked) {
      pass.template step<true>(stage, at);
    } else {
      pass.template step<false>(stage, at);
    }
    if (B::stages == 1) __syncthreads();
    if (B::stages == 2) stage = 1 - stage;
    at = next;
  }
  __syncthreads();  // the tiles are free
  pass.store();
}

}  // namespace fa::kernels::backward
