// A consumer warpgroup: the gradients of its 64 keys and of their values, and its part of dQ. Consumer::step has the
// five products.
#pragma once

#include "backward/wgmma/products.cuh"
#include "backward/wgmma/scores.cuh"
#include "backward/wgmma/store.cuh"
#include "collective/dq_chunk.cuh"

namespace fa::kernels::backward_wgmma {

template <class B>
class Consumer : private StepScores<B> {
  using Base = StepScores<B>;
  using Base::any_nonfinite, Base::attending, Base::pairs_of, Base::stats;
  using Base::end_softcap, Base::multiply_weights, Base::weigh;
  using Base::group_, Base::n_, Base::p_, Base::state_;
  using Base::lane, Base::no_dq, Base::parity, Base::stage, Base::thread;
  using Base::store_key_ranges, Base::store_query_ranges;
  using typename Base::AllPairs, typename Base::Attending, typename Base::MaskedPairs, typename Base::Pairs,
      typename Base::Scores;
  using typename Base::Stats;

 public:
  /// group: the number of this warpgroup among the consumers.
  __device__ Consumer(const BackwardParams &p, const SharedMemory<B> &shared, int group)
      : Base(p, *shared.state, group), shared_(shared), keys_(shared.own(0)), ds_(shared.ds(0)) {}

  __device__ __forceinline__ void run() {
    Gradients sum;
    sum.dk.clear();
    sum.dv.clear();
    if constexpr (B::scales) unroll<2>([&](int i) { factors(i) = {}; });
    if (!state_.tiles.empty()) {
      clear_ds(1);
      if (group_ == 0) store_query_ranges();
      mbarrier_wait(shared_address(&state_.kv_full), 0);
      sync_consumers();
      const ScoreMod mod = score_mod_of(p_);  // ahead of the loop: plain calls do not pay for it
      constexpr bool caps = has_softcap(B::dim, B::dtype);
      if (caps && mod == ScoreMod::softcap)
        add_all<caps ? ScoreMod::softcap : ScoreMod::none>(sum);
      else if (mod == ScoreMod::alibi)
        add_all<ScoreMod::alibi>(sum);
      else
        add_all<ScoreMod::none>(sum);
      DqPart dq;
      wgmma_fence();
      multiply_ds(dq);
      wgmma_wait_group<0>();
      pin(dq);
      unscale(dq, n_ - 1);
      hand_over(dq);
    }
    sync_consumers();  // the tiles are free
    const Sequence &s = state_.sequence;
    const KeyWorkTile &w = state_.work;
    const int keys = min(B::rows, s.keys - w.first);
    const int64_t key = int64_t(s.k_first) + w.first;
    store_sums<B>(shared_, Gradient(p_.dk, p_.dk_dtype, p_.accumulate & accumulate_dk, s.k_batch, key, w.kv_head),
                  sum.dk, keys, p_.head_dim, [&](int r) { return p_.scale * inverse_factor(of_dk, r); });
    store_sums<B>(shared_, Gradient(p_.dv, p_.dv_dtype, p_.accumulate & accumulate_dv, s.k_batch, key, w.kv_head),
                  sum.dv, keys, p_.head_dim_v, [&](int r) { return inverse_factor(of_dv, r); });
  }

 private:
  using DqPart = typename B::DqPart;

  enum Sum : int { of_dk, of_dv };
  __device__ Factors<B> &factors(int sum) const { return state_.ds_scales.factors[sum][mov_tid_x() - 128]; }
  __device__ float inverse_factor(Sum sum, int r) const {
    if constexpr (B::scales) return factors(sum).inverse(r);
    return Factors<B>().inverse(r);
  }

  struct Gradients {
    typename B::Sums dk, dv;
  };

  __device__ static void sync_consumers() { bar_sync(all_consumers, 128 * consumers); }

  __device__ bool has_dq() const { return n_ < no_dq; }

  /// The descriptor of a tile whose rows lie as K's do, by its distance from K in bytes: registers are few.
  template <class To>
  __device__ To from_keys(uint32_t bytes) const {
    To found = __builtin_bit_cast(To, keys_);
    found.as_rows += bytes / 16;
    found.as_columns += bytes / 16 + ((To::panel - B::Own::panel) << 16);
    return found;
  }

  /// dQ of the step before is multiplied at the end of a step, where S^T and dP^T have left their registers, and not
  /// behind S^T. A warpgroup then needs dS that the other one had a step ago, and may be half a step away from it, so
  /// that one multiplies while the other one computes weights.
  static constexpr bool late_dq = B::columns <= 64;

  static constexpr bool ds_alike = late_dq && B::Ds::swizzle == B::Own::swizzle;
  struct NoDescriptor {
    __device__ explicit NoDescriptor(uint32_t) {}
  };
  __device__ typename B::Ds ds_of(uint32_t which) const {
    if constexpr (ds_alike) return from_keys<typename B::Ds>(SharedMemory<B>::ds_tiles + which * B::DsTile::bytes);
    if constexpr (!ds_alike) return ds_ + which;
  }
  __device__ typename B::Streamed streamed(uint32_t number) const {
    return from_keys<typename B::Streamed>(SharedMemory<B>::ring + number * B::StreamedTile::bytes);
  }
  __device__ typename B::Streamed queries() const { return streamed(2 * stage()); }
  __device__ typename B::Streamed dout() const { return streamed(2 * stage() + 1); }
  __device__ typename B::Own own(const typename B::Own &tile) const { return tile.from(keys_of_warpgroup * group_); }

  /// Lets the stage be loaded again, and dS of the step before be overwritten.
  __device__ void release_stage() const {
    __syncwarp();
    if (lane() == 0) mbarrier_arrive(shared_address(&state_.empty[stage()]));
  }

  /// Waits until both warpgroups have multiplied dS of the step before the last one, where this step's goes.
  __device__ void wait_for_room() const {
    if constexpr (late_dq) mbarrier_wait(shared_address(&state_.empty[(n_ - 1) % B::stages]), (n_ - 1) / B::stages % 2);
  }

  /// This warp's rows of dS are in shared memory.
  __device__ void publish_ds() const {
    fence_proxy_async();
    if constexpr (late_dq) {
      __syncwarp();
      if (lane() == 0) mbarrier_arrive(shared_address(&state_.ds_full[n_ % 2]));
    }
  }

  /// Before the first step there is no dS: zeros in its place.
  __device__ void clear_ds(int which) const {
#pragma unroll 1
    for (int at = (threadIdx.x - 128) * 16; at < B::DsTile::bytes; at += 128 * consumers * 16)
      st_shared_v4_b32(shared_.ds(which) + at, {});
    if constexpr (B::scales) {
      if (lane() == 0) state_.ds_scales.of_warps[which][warp()] = 1;
    }
    fence_proxy_async();
  }

  /// The number of this warp among the consumers'.
  __device__ int warp() const { return 4 * group_ + thread() / 32; }

  /// Where this lane has rows of dS^T.
  __device__ uint32_t ds_of_lane() const {
    return shared_.ds(n_ % 2) +
           B::DsTile::lane_offset(keys_of_warpgroup * group_ + thread() / 32 * 16 + lane_row(lane()),
                                  lane_chunk(lane()));
  }

  /// dS^T in shared memory, for the next step's dQ.
  __device__ __forceinline__ void store_ds(const Weights<B> &ds) const {
    const uint32_t at = ds_of_lane();
    wait_for_room();
    unroll<Weights<B>::blocks>(
        [&](int k) { stmatrix_x4(B::DsTile::matrices_at(at, 0, k), ds.columns[k].block[0].word); });
    publish_ds();
  }

  /// The same with a scale of the warp.
  __device__ __forceinline__ void store_ds(const typename B::Scores &ds, const typename B::Rows &top) const {
    const uint32_t at = ds_of_lane();
    const float scale = backward_mma::ds_scale<B>(ds, top);
    wait_for_room();
    if (lane() == 0) state_.ds_scales.of_warps[n_ % 2][warp()] = scale;
    Weights<B>::scaled(
        ds, [&](int) { return scale; },
        [&](int k, const auto &a) { stmatrix_x4(B::DsTile::matrices_at(at, 0, k), a.block[0].word); });
    publish_ds();
  }

  /// dS^T in shared memory and as A.
  __device__ __forceinline__ Weights<B> round_ds(Gradients &sum, const typename B::Scores &ds) const {
    if constexpr (B::scales) {
      const auto top = backward_mma::largest_of_rows<B>(ds);
      store_ds(ds, top);
      return factored(sum.dk, of_dk, ds, top);
    } else {
      const Weights<B> rounded(ds);
      store_ds(rounded);
      return rounded;
    }
  }

  /// The same where the rows of dS have factors, in shared memory alone.
  __device__ __forceinline__ Weights<B> round_uneven_ds(Gradients &sum, typename B::Scores &ds) const {
    if constexpr (B::scales) {
      this->template multiply_by_row_scales<false>(ds);
      store_ds(ds, backward_mma::largest_of_rows<B>(ds));
      this->template multiply_by_row_scales<true>(ds);
      return factored(sum.dk, of_dk, ds);
    } else {
      return round_ds(sum, ds);
    }
  }

  /// Weights or dS^T as A, for a sum, times the factors of their rows.
  __device__ __forceinline__ Weights<B> factored(typename B::Sums &sum, Sum which, const typename B::Scores &x) const {
    if constexpr (B::scales) return factored(sum, which, x, backward_mma::largest_of_rows<B>(x));
    if constexpr (!B::scales) return Weights<B>(x);
  }
  __device__ __forceinline__ Weights<B> factored(typename B::Sums &sum, Sum which, const typename B::Scores &x,
                                                 const typename B::Rows &top) const {
    Factors<B> of_rows = factors(which);
    if (of_rows.fit(top, sum)) factors(which) = of_rows;
    return Weights<B>(x, of_rows);
  }

  /// The scale of dS in shared memory that all warps have in the end: that of the largest terms.
  __device__ float least_scale(uint32_t which) const {
    float least = infinity;
    unroll<4 * consumers>([&](int i) { least = fminf(least, state_.ds_scales.of_warps[which][i]); });
    return least;
  }

  /// Gives dS of all warps one scale. By all consumers, behind a barrier.
  __device__ __forceinline__ void unify_ds(uint32_t which) const {
    if constexpr (B::scales) {
      const float least = least_scale(which);
      bool one = true;
      unroll<4 * consumers>([&](int i) { one &= state_.ds_scales.of_warps[which][i] == least; });
      if (one) return;
      const float ratio = least / state_.ds_scales.of_warps[which][warp()];
      constexpr int bytes = 16 * B::DsTile::row_bytes;  // that a warp has in a panel
      const uint32_t first = shared_.ds(which) + warp() * bytes + lane() * 16;
#pragma unroll 1
      for (int panel = 0; panel < B::DsTile::panels; panel++) {
#pragma unroll 1
        for (int i = 0; i < bytes; i += 32 * 16) {
          const uint32_t at = first + panel * B::DsTile::panel_bytes + i;
          st_shared_v4_b32(at, rescale_ds(ld_shared_v4_b32(at), ratio));
        }
      }
      fence_proxy_async();
      sync_consumers();
    }
  }

  /// Begins dQ = dS K of the step before.
  __device__ __forceinline__ void multiply_ds(DqPart &dq) const {
    if constexpr (late_dq)
      mbarrier_wait(shared_address(&state_.ds_full[(n_ + 1) % 2]), (n_ - 1) / 2 % 2);
    else
      sync_consumers();
    // After add_carefully the other warpgroup may still read this dS, which has its one scale already.
    if (B::scales && has_dq()) unify_ds((n_ + 1) % 2);
    if constexpr (late_dq) wgmma_fence();
    const auto ds = ds_of((n_ + 1) % 2);
    if constexpr (B::dq_queries > 0) {
      backward_wgmma::multiply_ds<B>(dq, ds.from(0, group_), keys_);
    } else {
      backward_wgmma::multiply_ds<B>(dq, ds, keys_.from(0, group_ * (B::dq_columns / B::OwnTile::panel_columns)));
    }
  }

  /// Of a warp's part of dQ.
  __device__ int first_query() const { return B::dq_queries * group_ + thread() / 32 * 16; }

  /// Divides dQ by the scale of dS in step n. Before the stage is released, and the scale with it.
  __device__ __forceinline__ void unscale(DqPart &dq, uint32_t n) const {
    if constexpr (B::scales) {
      const float inverse = 1 / least_scale(n % 2);
      dq.for_each([&](float &x, int, int) { x *= inverse; });
    }
  }

  /// Hands this warpgroup's part of dQ of the step before to the warp that adds it.
  __device__ __forceinline__ void hand_over(const DqPart &dq) {
    if (has_dq()) hand_over(dq, n_ - 1);
    n_ &= ~no_dq;
  }
  __device__ __forceinline__ void hand_over(const DqPart &dq, uint32_t n) const {
    mbarrier_wait(shared_address(&state_.dq_empty), n % 2 ^ 1);
    constexpr int half = B::dq_twice / 2 / block_columns;
    store_dq_chunk(shared_.dq() + (first_query() * B::dim + B::dq_columns * group_ * block_rows) * 4, dq, [&](int j) {
      return (j >= half || group_ == 0) && (j < DqPart::column_blocks - half || group_ > 0);
    });
    fence_proxy_async();
    __syncwarp();
    if (lane() == 0) mbarrier_arrive(shared_address(&state_.dq_full));
  }

  /// All steps.
  template <ScoreMod Mod>
  __device__ __forceinline__ void add_all(Gradients &sum) {
#pragma unroll 1
    for (StreamCoord tile = {0, state_.tiles.high - 1}; tile.tile >= state_.tiles.low; tile.advance(state_.group)) {
      mbarrier_wait(shared_address(&state_.q_full[stage()]), parity());
      step<Mod>(sum, tile);
      n_++;
    }
  }

  template <ScoreMod Mod>
  __device__ __forceinline__ void step(Gradients &sum, StreamCoord tile) {
    const Alibi<Mod> alibi = this->template alibi_of<Mod>(tile);
    Scores x;
    DqPart dq;
    wgmma_fence();
    multiply_rows<B>(x, own(keys_), queries());  // S^T = K Q^T
    if constexpr (!late_dq) multiply_ds(dq);
    const Pairs pairs = pairs_of(tile);
    if (pairs == Pairs::all) {
      differentiate<AllPairs>(sum, x, dq, tile, alibi);
    } else if (pairs == Pairs::masked && has_finite_products(x)) {
      differentiate<MaskedPairs>(sum, x, dq, tile, alibi);
    } else {
      differentiate_carefully(sum, x, dq, tile, alibi);
    }
  }

  /// Whether S^T is finite, and so Q and K are. By both warpgroups.
  __device__ __forceinline__ bool has_finite_products(Scores &x) const {
    wgmma_wait_group<late_dq ? 0 : 1>();
    pin(x);
    return !bar_red_or(all_consumers, 128 * consumers, any_nonfinite(x));
  }

  /// From S^T on.
  template <class P, ScoreMod Mod>
  __device__ __forceinline__ void differentiate(Gradients &sum, Scores &x, DqPart &dq, StreamCoord tile,
                                                const Alibi<Mod> &alibi) {
    Scores y;
    wait_for_scores(x, dq);
    if constexpr (late_dq) weigh(x, stats(0), P(*this, tile), alibi);
    mbarrier_wait(shared_address(&state_.do_full[stage()]), parity());
    wgmma_fence();
    multiply_rows<B>(y, own(keys_ + 1), dout());  // dP^T = V dO^T
    if constexpr (!late_dq) weigh(x, stats(0), P(*this, tile), alibi);
    Weights<B> p = factored(sum.dv, of_dv, x);
    add_weighted<B>(sum.dv, p, dout());  // dV += P^T dO
    Stats first;
    if constexpr (late_dq) first = stats(0);
    wgmma_wait_group<1>();
    if constexpr (!late_dq) first = stats(0);
    pin(y);
    this->template multiply_weights<P::masked>(y, x, first);  // dS^T = P^T (dP^T - delta)
    Weights<B> ds = round_ds(sum, y);
    add_weighted<B>(sum.dk, ds, queries());  // dK += dS^T Q
    finish(sum, dq);
  }

  /// The end of a step.
  __device__ __forceinline__ void finish(Gradients &sum, DqPart &dq) {
    if constexpr (late_dq) multiply_ds(dq);
    wgmma_wait_group<0>();
    pin(sum.dv);
    pin(sum.dk);
    if constexpr (late_dq) {
      pin(dq);
      unscale(dq, n_ - 1);
    }
    release_stage();
    if constexpr (late_dq) hand_over(dq);
  }

  /// Waits for S^T, and for dQ where that was begun.
  __device__ __forceinline__ void wait_for_scores(Scores &x, DqPart &dq) {
    wgmma_wait_group<0>();
    pin(x);
    if constexpr (!late_dq) {
      pin(dq);
      hand_over(dq);
    }
  }

  /// The same under a softcap, whose three functions a pair take longer than products: two of them while dP^T is
  /// multiplied. P^T and dS^T are then computed together, or registers would not hold them next to dP^T.
  template <class P>
  __device__ __forceinline__ void differentiate(Gradients &sum, Scores &x, DqPart &dq, StreamCoord tile,
                                                const Alibi<ScoreMod::softcap> &alibi) {
    wait_for_scores(x, dq);
    mbarrier_wait(shared_address(&state_.do_full[stage()]), parity());
    Scores y;
    wgmma_fence();
    multiply_rows<B>(y, own(keys_ + 1), dout());
    this->template begin_softcap<false>(x);
    wgmma_wait_group<0>();
    pin(y);
    Weights<B> p, ds;
    end_softcap(p, ds, x, y, P(*this, tile), alibi, false);
    store_ds(ds);
    add_both(sum, p, ds, dq);
  }

  /// dV += P^T dO, dK += dS^T Q.
  __device__ __forceinline__ void add_both(Gradients &sum, Weights<B> &p, Weights<B> &ds, DqPart &dq) {
    add_weighted<B>(sum.dv, p, dout());
    add_weighted<B>(sum.dk, ds, queries());
    finish(sum, dq);
  }

  /// The same of a step in which not all queries attend all keys, and Q, K or dO may have elements that are not finite.
  template <ScoreMod Mod>
  __device__ __forceinline__ void differentiate_carefully(Gradients &sum, Scores &x, DqPart &dq, StreamCoord tile,
                                                          const Alibi<Mod> &alibi) {
    store_key_ranges(tile);
    const Attending pairs = attending();
    wait_for_scores(x, dq);
    const bool odd = any_nonfinite(x);
    if constexpr (Mod != ScoreMod::softcap) weigh(x, stats(0), pairs, alibi);
    if constexpr (Mod == ScoreMod::softcap) this->template begin_softcap<true>(x);
    mbarrier_wait(shared_address(&state_.do_full[stage()]), parity());
    Scores y;
    wgmma_fence();
    multiply_rows<B>(y, own(keys_ + 1), dout());
    wgmma_wait_group<0>();
    pin(y);
    const bool any_odd = bar_red_or(all_consumers, 128 * consumers, odd || any_nonfinite(y));
    if constexpr (Mod == ScoreMod::softcap) {
      if (any_odd) clear_nonfinite_queries();
      Weights<B> p, ds;
      end_softcap(p, ds, x, y, pairs, alibi, any_odd);
      store_ds(ds);
      add_both(sum, p, ds, dq);
    } else {
      this->template multiply_weights<true>(y, x, stats(0));
      if (any_odd) repair(x, y);
      Weights<B> p = factored(sum.dv, of_dv, x);
      Weights<B> ds = round_uneven_ds(sum, y);
      add_both(sum, p, ds, dq);
    }
    if (any_odd) add_carefully();
  }

  /// The weights P of pairs whose dS is not finite become NaN, so that dV does, too.
  __device__ __forceinline__ void repair(Scores &p, const Scores &ds) const {
    clear_nonfinite_queries();
    unroll<Scores::column_blocks>(
        [&](int j) { unroll<4>([&](int e) { p.block[0][j].x[e] += ds.block[0][j].x[e] - ds.block[0][j].x[e]; }); });
  }

  /// Zeroes the elements of Q and dO that are not finite: a product by a masked weight is 0 then.
  __device__ __forceinline__ void clear_nonfinite_queries() const {
    unroll<2>([&](int which) {
      clear_nonfinite(shared_.slot(stage(), which), B::StreamedTile::bytes, B::exponents, threadIdx.x - 128,
                      128 * consumers);
    });
    fence_proxy_async();
    sync_consumers();
  }

  /// dQ of this step, keys that are not finite counting as 0 where not all attend them; the next step then has none to
  /// add.
  __device__ __forceinline__ void add_carefully() {
    sync_consumers();
    unify_ds(n_ % 2);
    DqPart dq;
    multiply_finite<B>(dq, shared_.ds(n_ % 2), first_query(), shared_.own(0), B::dq_columns / 8 * group_);
    unscale(dq, n_);
    hand_over(dq, n_);
    n_ |= no_dq;
  }

  const SharedMemory<B> &shared_;
  typename B::Own keys_;                                           // values are the next tile
  std::conditional_t<ds_alike, NoDescriptor, typename B::Ds> ds_;  // of even steps
};

}  // namespace fa::kernels::backward_wgmma
