// A warpgroup that computes weights and gradients of scores from scores, and in the end writes dK or dV. A thread has a
// key, and half of a step's queries. Scores::differentiate has the lines of the algorithm.
#pragma once

#include "backward/tcgen05/block.cuh"
#include "backward/tcgen05/store.cuh"
#include "collective/nonfinite.cuh"
#include "common/packed.cuh"

namespace fa::kernels::backward_tcgen05 {

template <class B>
class Scores {
  static constexpr int own = B::columns / 2, chunk = 32;  // queries of a step, and of a part that is in registers

 public:
  /// half: the number of this warpgroup among its kind.
  __device__ Scores(const BackwardParams &p, const SharedMemory<B> &shared, int half)
      : p_(p), shared_(shared), state_(*shared.state), half_(half) {}

  __device__ __forceinline__ void run() {
    const Sequence &s = state_.sequence;
    queries_ = key() < s.keys ? full_query_range(p_, s, key(), key() + 1) : Interval{0, 0};
    const ScoreMod mod = score_mod_of(p_);  // ahead of the loop: plain calls do not pay for it
    if (mod == ScoreMod::softcap)
      weigh_all<ScoreMod::softcap>();
    else if (mod == ScoreMod::alibi)
      weigh_all<ScoreMod::alibi>();
    else
      weigh_all<ScoreMod::none>();
    store();
  }

 private:
  __device__ int key() const { return state_.work.first + int(threadIdx.x) % B::rows; }

  /// All steps.
  template <ScoreMod Mod>
  __device__ __forceinline__ void weigh_all() {
    for_each_step(state_, [&](uint32_t n, StreamCoord tile) {
      const uint32_t stage = n % B::stages;
      wait(state_.stats_full[stage], n / B::stages);
      neg_lse_ = shared_address(state_.neg_lse_log2[stage] + half_ * own);
      neg_dpsum_ = shared_address(state_.neg_dpsum[stage] + half_ * own);
      const int first = tile.tile * B::columns + half_ * own;
      const Pairs pairs = state_.pairs[n % 4];
      Alibi<Mod> alibi(p_, state_.sequence, state_.work.kv_head * state_.group + tile.head);
      alibi.distance = float(first + state_.sequence.offset - key());
      wait(state_.s_full, n);
      if (pairs == Pairs::all)
        differentiate(n, AllPairs(), alibi);
      else if (pairs == Pairs::masked)
        differentiate(n, MaskedPairs(queries_, first), alibi);
      else
        differentiate_carefully(n, MaskedPairs(queries_, first), alibi);
    });
  }

  /// A thread's pairs that attend, by the number of the query among the thread's. All of them.
  struct AllPairs {
    static constexpr bool masked = false;
    __device__ bool holds(int) const { return true; }
  };

  /// From a first one on.
  struct MaskedPairs {
    static constexpr bool masked = true;
    int first;
    uint32_t count;

    __device__ MaskedPairs(Interval queries, int first_query)
        : first(queries.low - first_query), count(uint32_t(queries.high - queries.low)) {}
    __device__ bool holds(int i) const { return uint32_t(i - first) < count; }
  };

  using Chunk = uint32_t[chunk];

  /// Statistics of four queries.
  __device__ static float4 statistics(uint32_t from, int i) {
    const uint4 x = ld_shared_v4_b32(from + i * 4);
    return {__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)};
  }

  /// Begins to read this thread's sums of queries from `i` on.
  __device__ void load(Chunk &x, uint32_t sums, int i) const {
    tcgen05_ld_32x32b_x32(x, of_warp(sums + half_ * own + i));
  }

  /// Rounded weights in place of sums.
  __device__ void put(uint32_t sums, int i, const uint32_t (&word)[chunk / 2]) const {
    tcgen05_st_32x32b_x16(of_warp(sums + half_ * own + i / 2), word);
  }

  /// A thread's row of dS^T in shared memory.
  __device__ void put_shared(int i, const uint32_t (&word)[chunk / 2]) const {
    static_assert(own == B::DsTile::panel_columns);
    const int key = threadIdx.x % B::rows;
    unroll<chunk / 8>([&](int c) {
      st_shared_v4_b32(shared_.ds() + B::DsTile::offset(key, (half_ * own + i) / 8 + c),
                       {word[4 * c], word[4 * c + 1], word[4 * c + 2], word[4 * c + 3]});
    });
  }

  /// The constants of scores, but for ALiBi: c, or the softcap.
  template <ScoreMod Mod>
  using Scaling = std::conditional_t<Mod == ScoreMod::softcap, Softcap, float2>;
  template <ScoreMod Mod>
  __device__ Scaling<Mod> scaling() const {
    if constexpr (Mod == ScoreMod::softcap) {
      return Softcap(state_.softcap);
    } else {
      const float c = p_.scale * log2_e;
      return {c, c};
    }
  }

  /// Two queries' weights, and these times the derivative of scores by products.
  struct Weights {
    float2 p, of_ds;
  };

  /// P^T = 2^(c S^T - lse).
  template <class P, ScoreMod Mod>
  __device__ __forceinline__ static Weights weights(float2 s, const Scaling<Mod> &scaling, float2 neg_lse,
                                                    const P &pairs, int i, const Alibi<Mod> &alibi) {
    float2 x, derivative;
    if constexpr (Mod == ScoreMod::softcap) {
      const float2 t = {scaling.part_of(s.x), scaling.part_of(s.y)};
      x = scaling.score(t, neg_lse), derivative = Softcap::derivative(t);
    } else {
      x = fma_rn_f32x2(s, scaling, neg_lse);
    }
    const float a = ex2_approx_ftz(alibi.add(x.x, i)), b = ex2_approx_ftz(alibi.add(x.y, i + 1));
    const auto held = [&](float2 w) -> float2 {
      return {pairs.holds(i) ? w.x : no_weight, pairs.holds(i + 1) ? w.y : no_weight};
    };
    const float2 w = held({a, b});
    if constexpr (Mod == ScoreMod::softcap) return {w, held(mul_rn_f32x2({a, b}, derivative))};
    return {w, w};
  }

  /// Two queries' dS^T = P^T (dP^T - delta).
  template <bool Masked>
  __device__ __forceinline__ static float2 gradients(float2 weights, float2 dp, float2 neg_dpsum) {
    const float2 ds = mul_rn_f32x2(weights, add_rn_f32x2(dp, neg_dpsum));
    return {Masked && !has_weight(weights.x) ? 0 : ds.x, Masked && !has_weight(weights.y) ? 0 : ds.y};
  }

  template <class P, ScoreMod Mod>
  __device__ __forceinline__ void differentiate(uint32_t n, const P &pairs, const Alibi<Mod> &alibi) const {
    float2 weight[own / 2];  // times the derivative
    weigh(weight, pairs, alibi);
    tcgen05_wait_st();
    tcgen05_fence_before_thread_sync();
    arrive_as_warp(state_.p_full);
    wait(state_.dp_full, n);
    tcgen05_fence_after_thread_sync();
    unroll<own / chunk>([&](int half) {
      const int first = half * chunk;
      Chunk y;
      load(y, Columns<B>::dp, first);
      tcgen05_wait_ld(y);
      uint32_t word[chunk / 2];
      unroll<chunk / 4>([&](int j) {
        const float4 of = statistics(neg_dpsum_, first + 4 * j);
        unroll<2>([&](int k) {
          const int i = 4 * j + 2 * k;
          const float2 ds = gradients<P::masked>(weight[(first + i) / 2], {number(y[i]), number(y[i + 1])},
                                                 k == 0 ? float2{of.x, of.y} : float2{of.z, of.w});
          word[i / 2] = pack<typename B::Element>(ds.x, ds.y);
        });
      });
      put_shared(first, word);
      put(Columns<B>::dp, first, word);
    });
    arrive_with_ds();
  }

  /// 0, which the compiler does not know. A word of P that seems to depend on a derivative keeps derivatives from being
  /// multiplied later, for which registers do not suffice.
  __device__ uint32_t zero() const { return uint32_t(p_.head_dim) >> 16; }

  /// P^T in place of S^T. Under a softcap a chunk at a time, as registers are few.
  template <class P, ScoreMod Mod>
  __device__ __forceinline__ void weigh(float2 (&weight)[own / 2], const P &pairs, const Alibi<Mod> &alibi) const {
    constexpr bool capped = Mod == ScoreMod::softcap;
    Chunk x[own / chunk];
    tcgen05_fence_after_thread_sync();
    if constexpr (!capped) {
      unroll<own / chunk>([&](int half) { load(x[half], Columns<B>::s, half * chunk); });
      static_assert(own / chunk == 2);
      tcgen05_wait_ld(x[0], x[1]);
    }
    const Scaling<Mod> c = scaling<Mod>();
    unroll<own / chunk>([&](int half) {
      if constexpr (capped) {
        load(x[half], Columns<B>::s, half * chunk);
        tcgen05_wait_ld(x[half]);
      }
      uint32_t word[chunk / 2];
      unroll<chunk / 4>([&](int j) {
        const int first = half * chunk + 4 * j;
        const float4 of = statistics(neg_lse_, first);
        unroll<2>([&](int k) {
          const int i = 4 * j + 2 * k;
          const Weights w = weights({number(x[half][i]), number(x[half][i + 1])}, c,
                                    k == 0 ? float2{of.x, of.y} : float2{of.z, of.w}, pairs, first + 2 * k, alibi);
          weight[first / 2 + k] = w.of_ds;
          word[i / 2] = pack<typename B::Element>(w.p.x, w.p.y);
          if constexpr (capped) word[i / 2] |= __float_as_uint(w.of_ds.x) & zero();
        });
      });
      put(Columns<B>::s, half * chunk, word);
    });
  }

  __device__ static float number(uint32_t x) { return __uint_as_float(x); }

  __device__ __forceinline__ void arrive_with_ds() const {
    tcgen05_wait_st();
    fence_proxy_async();
    tcgen05_fence_before_thread_sync();
    arrive_as_warp(state_.ds_full);
  }

  /// The same of a step in which not all queries attend all keys, and Q, K or dO may have elements that are not finite.
  /// These are zeroed in Q and dO: a product by a masked weight is 0 then. The weights P of pairs whose dS is not
  /// finite become NaN, so that dV does, too. No query attends whose row has no weights.
  template <ScoreMod Mod>
  __device__ __forceinline__ void differentiate_carefully(uint32_t n, const MaskedPairs &pairs,
                                                          const Alibi<Mod> &alibi) const {
    wait(state_.dp_full, n);
    tcgen05_fence_after_thread_sync();
    const bool odd = bar_red_or(scores, 256, has_nonfinite_products());
    if (odd) {
      const int thread = threadIdx.x - 32 * score_warp;
      clear_nonfinite(shared_.q(n % B::stages), B::StreamedTile::bytes, B::exponents, thread, 256);
      clear_nonfinite(shared_.dout(n % B::dout_stages), B::StreamedTile::bytes, B::exponents, thread, 256);
    }
    const Scaling<Mod> c = scaling<Mod>();
#pragma unroll 1
    for (int first = 0; first < own; first += chunk) {
      Chunk x, y;
      load(x, Columns<B>::s, first);
      load(y, Columns<B>::dp, first);
      tcgen05_wait_ld(x, y);
      uint32_t p[chunk / 2], ds[chunk / 2];
      unroll<chunk / 2>([&](int i) {
        const float2 neg_lse = ld_shared_v2_f32(neg_lse_ + (first + 2 * i) * 4);
        const float2 neg_dpsum = ld_shared_v2_f32(neg_dpsum_ + (first + 2 * i) * 4);
        const float2 s = product<Mod>({number(x[2 * i]), number(x[2 * i + 1])});
        Weights w = weights(s, c, neg_lse, pairs, first + 2 * i, alibi);
        if (neg_lse.x == -infinity) w.p.x = w.of_ds.x = no_weight;
        if (neg_lse.y == -infinity) w.p.y = w.of_ds.y = no_weight;
        const float2 d = gradients<true>(w.of_ds, {number(y[2 * i]), number(y[2 * i + 1])}, neg_dpsum);
        if (odd) w.p.x += d.x - d.x, w.p.y += d.y - d.y;
        p[i] = pack<typename B::Element>(w.p.x, w.p.y), ds[i] = pack<typename B::Element>(d.x, d.y);
      });
      put(Columns<B>::s, first, p);
      put_shared(first, ds);
      put(Columns<B>::dp, first, ds);
    }
    tcgen05_wait_st();
    fence_proxy_async();  // zeros
    tcgen05_fence_before_thread_sync();
    arrive_as_warp(state_.p_full);
    arrive_with_ds();
  }

  /// Under a softcap NaN of a product that is not finite, as it makes gradients NaN by its elements of Q or K, which
  /// are zeroed.
  template <ScoreMod Mod>
  __device__ static float2 product(float2 s) {
    if constexpr (Mod == ScoreMod::softcap) return fma_rn_f32x2(s, {0, 0}, s);
    return s;
  }

  /// Whether an element of S^T or dP^T is not finite, of this thread's.
  __device__ bool has_nonfinite_products() const {
    float zero = 0;
#pragma unroll 1
    for (int first = 0; first < own; first += chunk) {
      Chunk x, y;
      load(x, Columns<B>::s, first);
      load(y, Columns<B>::dp, first);
      tcgen05_wait_ld(x, y);
      unroll<chunk>([&](int i) { zero = fmaf(number(x[i]), 0.f, fmaf(number(y[i]), 0.f, zero)); });
    }
    return zero != 0;
  }

  /// dV by the first warpgroup, dK by the second.
  __device__ void store() const {
    const Sequence &s = state_.sequence;
    const KeyWorkTile &w = state_.work;
    const int64_t key = int64_t(s.k_first) + w.first;
    const bool any = !state_.tiles.empty();
    if (any) wait(state_.sums_full, 0);
    tcgen05_fence_after_thread_sync();
    constexpr float unit = B::halves ? 2 : 1;
    if (half_ == 0)
      store_sums<B>(shared_, Gradient(p_.dv, p_.dv_dtype, p_.accumulate & accumulate_dv, s.k_batch, key, w.kv_head),
                    Columns<B>::dv, any, s.keys - w.first, p_.head_dim_v, unit);
    else
      store_sums<B>(shared_, Gradient(p_.dk, p_.dk_dtype, p_.accumulate & accumulate_dk, s.k_batch, key, w.kv_head),
                    Columns<B>::dk, any, s.keys - w.first, p_.head_dim, p_.scale * unit);
  }

  const BackwardParams &p_;
  const SharedMemory<B> &shared_;
  State<B> &state_;
  int half_;
  Interval queries_;              // that attend this thread's key
  uint32_t neg_lse_, neg_dpsum_;  // addresses of a step's, of this thread's queries
};

}  // namespace fa::kernels::backward_tcgen05
