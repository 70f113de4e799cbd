// The steps of a block that owns keys and values, each with one tile of queries. KeysPass::step has the five products.
#pragma once

#include "backward/mma/exchange.cuh"
#include "backward/mma/grad_scale.cuh"
#include "backward/mma/load.cuh"
#include "backward/mma/products.cuh"
#include "backward/mma/scores.cuh"
#include "backward/mma/store.cuh"

namespace fa::kernels::backward_mma {

template <class B>
struct KeysPass {
  using Scores = typename B::Scores;

  const BackwardParams &p;
  const SharedMemory<B> &shared;
  const Sequence &s;
  const KeyWorkTile &w;
  GradScale<B> factors;
  RegOperand<B> kept;    // a value warp's keys, a key warp's values
  typename B::Sums sum;  // a value warp's dV, a key warp's dK

  __device__ KeysPass(const BackwardParams &params, const SharedMemory<B> &memory)
      : p(params), shared(memory), s(memory.state->sequence), w(memory.state->work) {
    sum.clear();
  }

  __device__ static bool of_keys() { return B::of_keys(B::thread() / 32); }

  /// Waits for the block's tiles, and loads the part of them that stays in registers.
  __device__ void keep() {
    if constexpr (B::kept_blocks > 0) {
      cp_async_wait_group<0>();
      __syncthreads();
      kept.load(shared.own(of_keys()));
    }
  }

  /// A lane's statistics of columns 8 j and 8 j + 1.
  __device__ static uint32_t terms_at(const float (&of_columns)[B::columns], int j) {
    return shared_address(of_columns) + (8 * j + Scores::first_column(B::thread() % 32)) * 4;
  }
  __device__ static float2 terms(const float (&of_columns)[B::columns], int j) {
    return ld_shared_v2_f32(terms_at(of_columns, j));
  }

  /// P^T = 2^(c S^T - lse) in place of S^T. Passes it to the key warp, times the derivatives of the score's
  /// modifications.
  template <bool Masked>
  __device__ void weigh(Scores &x, int n) const {
    const Exchange<B> exchange(shared.exchange());
    const float scale_2 = ScoreModBwd::scale_2_of(p);
    unroll<Scores::column_blocks>([&](int j) {
      const float2 neg_lse_log2 = terms(shared.state->terms[n & 1].neg_lse_log2, j);
      unroll<B::row_blocks>([&](int i) {
        Accumulator &block = x.block[i][j];
        if constexpr (!Masked || !B::supports_score_mod) {
          unroll<4>([&](int e) {
            const float weight = ex2_approx_ftz(fmaf(block.x[e], scale_2, e % 2 ? neg_lse_log2.y : neg_lse_log2.x));
            block.x[e] = !Masked || attends(i, j, e) ? weight : no_weight;
          });
          exchange.put(i, j, block);
        } else if (p.softcap > 0) {  // a branch for each block, as ptxas spills when it interleaves them
          exchange.put(i, j, weigh_scored<true>(block, n, i, j, neg_lse_log2));
        } else {
          exchange.put(i, j, weigh_scored<false>(block, n, i, j, neg_lse_log2));
        }
      });
    });
    exchange.arrive();
  }

  /// Whether number e of a block is of a pair that attends, in a masked step.
  __device__ bool attends(int i, int j, int e) const {
    const int thread = B::thread(), column = 8 * j + Scores::first_column(thread % 32) + e % 2;
    return shared.state->attended[column].holds(B::row_of(thread, 2 * i + e / 2));
  }

  /// A block of P^T under score modifications; returns its factors for the key warp.
  template <bool Capped>
  __device__ Accumulator weigh_scored(Accumulator &block, int n, int i, int j, float2 neg_lse_log2) const {
    const ScoreModBwd rule(p, s, w.kv_head * shared.state->group + shared.state->steps[n & 3].at.head);
    const int thread = B::thread(), own_key = B::row_of(thread, 2 * i);
    const int column = 8 * j + Scores::first_column(thread % 32);
    const float distance =
        float(shared.state->steps[n & 3].at.tile * B::columns + column + s.offset - w.first - own_key);
    Accumulator given;
    unroll<4>([&](int e) {
      const float weight = rule.template weigh<Capped>(block.x[e], e % 2 ? neg_lse_log2.y : neg_lse_log2.x,
                                                       distance + float(e % 2 - e / 2 * 8), &given.x[e]);
      const bool takes_part = attends(i, j, e);
      block.x[e] = takes_part ? weight : no_weight;
      given.x[e] = takes_part ? given.x[e] : no_weight;
    });
    return given;
  }

  /// Sets the sums of dP^T - delta to -delta.
  __device__ void begin_with_delta(Scores &x, int n) const {
    unroll<Scores::column_blocks>([&](int j) {
      const uint32_t from = terms_at(shared.state->terms[n & 1].neg_dpsum, j);
      unroll<B::row_blocks>([&](int i) {  // loaded for each: copies of registers would take more instructions
        unroll<2>([&](int half) {
          const float2 neg_dpsum = ld_volatile_shared_v2_f32(from);
          x.block[i][j].x[2 * half] = neg_dpsum.x, x.block[i][j].x[2 * half + 1] = neg_dpsum.y;
        });
      });
    });
  }

  /// dS^T = P^T (dP^T - delta) in place of dP^T - delta.
  template <bool Masked>
  __device__ void differentiate(Scores &x) const {
    const Exchange<B> exchange(shared.exchange());
    exchange.wait();
    unroll<Scores::column_blocks>([&](int j) {
      unroll<B::row_blocks>([&](int i) {
        const Accumulator given = exchange.get(i, j);
        unroll<4>([&](int e) {
          const float d = given.x[e] * x.block[i][j].x[e];
          x.block[i][j].x[e] = Masked && !has_weight(given.x[e]) ? 0 : d;
        });
      });
    });
  }

  /// The keys of the block that each query of a tile attends; none of a row without keys.
  __device__ void store_key_ranges(int n, int tile) {
    const int column = B::scales_ds ? B::thread() : int(threadIdx.x);  // ptxas spills with the other
    if (column >= B::columns) return;
    const int query = tile * B::columns + column;
    const bool any = query < s.queries && shared.state->terms[n & 1].neg_lse_log2[column] != -infinity;
    const Interval keys = any ? attended(p, s, query) : Interval{0, 0};
    const auto own = [&](int key) { return uint8_t(min(max(key - w.first, 0), B::rows)); };
    float factor = 1;
    if constexpr (B::scales_ds) {
      if (is_uneven(n)) factor = shared.state->steps[n & 3].factors->factor[query % stats_block];
    }
    shared.state->attended[column] = {own(keys.low), own(keys.high), uint16_t(__float_as_uint(factor) >> 16)};
  }

  /// Zeroes the non-finite elements of a stage. The weights P of pairs whose dP was not finite become NaN, so that dV
  /// does, too.
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
    if constexpr (B::sums_queries) __syncthreads();  // dS overwrites the exchanged weights
  }

  /// dS^T of a key warp, for dq.
  __device__ void store_ds(const Scores &x, const typename B::Rows &top) const {
    const float factor = ds_scale<B>(x, top);
    const int thread = B::thread();
    if (thread % 32 == 0) shared.state->ds_scales[B::team(thread / 32)] = factor;
    unroll<B::columns / 16>([&](int k) {
      AccumulatorTile<B::row_blocks, 2> part;
      unroll<B::row_blocks>([&](int i) { unroll<2>([&](int j) { part.block[i][j] = x.block[i][2 * k + j]; }); });
      part.for_each([&](float &d, int, int) { d *= factor; });
      SmemDs<B>::put(shared.exchange(), k, part.template columns_as_a<typename B::Element>(0));
    });
  }

  /// Whether a step has rows with factors other than 1. It then is a masked one.
  __device__ bool is_uneven(int n) const {
    if constexpr (B::scales_ds) return shared.state->largest_factor[n & 1] != 1;
    return false;
  }
  template <bool Inverse>
  __device__ void multiply_by_factors(Scores &x) const {
    const uint32_t first = shared_address(shared.state->attended) + Scores::first_column(B::thread() % 32) * 4;
    unroll<Scores::column_blocks>([&](int j) {
      const int2 two = ld_volatile_shared_v2_s32(first + 32 * j);
      const float factor[] = {KeyRange::factor_of<Inverse>(two.x), KeyRange::factor_of<Inverse>(two.y)};
      unroll<B::row_blocks>([&](int i) { unroll<4>([&](int e) { x.block[i][j].x[e] *= factor[e % 2]; }); });
    });
  }

  /// Returns whether elements that are not finite were found in a masked step.
  template <bool Masked>
  __device__ bool step(int n) {
    const bool keys = of_keys();
    const int stage = B::stage(n);
    if constexpr (Masked) store_key_ranges(n, shared.state->steps[n & 3].at.tile);
    Scores x;
    if (keys) {
      begin_with_delta(x, n);
      multiply_rows<B>(x, shared.own(1), kept, shared.slot(stage, 1));  //              dP^T - delta = V dO^T - delta
    } else {
      x.clear();
      multiply_rows<B>(x, shared.own(0), kept, shared.slot(stage, 0));  // S^T = K Q^T
    }
    bool odd = false;
    if constexpr (Masked) {
      odd = __syncthreads_or(any_nonfinite<B>(x));
    } else if constexpr (B::sums_queries) {
      __syncthreads();  // dS of the step before has been read, and pairs may exchange again
    }
    if (keys) {
      differentiate<Masked>(x);  //                                                     dS^T = P^T (dP^T - delta)
    } else {
      weigh<Masked>(x, n);  // P^T = 2^(c S^T - lse)
    }
    if (Masked && odd) repair(x, stage);
    if constexpr (B::sums_queries) {
      if (keys) __syncwarp();  // all lanes have read the exchanged weights
    }
    if constexpr (B::scales_ds) {
      if constexpr (Masked) {
        if (keys) {
          if (is_uneven(n)) multiply_by_factors<false>(x);
          store_ds(x, largest_of_rows<B>(x));
          if (is_uneven(n)) multiply_by_factors<true>(x);
        }
        factors.apply(x, sum);
      } else {
        const auto top = largest_of_rows<B>(x);
        if (keys) store_ds(x, top);
        factors.apply(x, sum, top);
      }
    } else {
      factors.apply(x, sum);
    }
    if (keys) {
      add_weighted<B>(sum, x, shared.slot(stage, 0), [&](int k, const auto &rounded) {  // dK += dS^T Q
        if constexpr (B::sums_queries && !B::scales_ds) SmemDs<B>::put(shared.exchange(), k, rounded);
      });
    } else {
      add_weighted<B>(sum, x, shared.slot(stage, 1));  // dV += P^T dO
    }
    return odd;
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

}  // namespace fa::kernels::backward_mma
