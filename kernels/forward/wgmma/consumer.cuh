// A consumer warpgroup: attention of its 64 rows over the key blocks of a work tile. Consumer::step and online_softmax
// have the five lines.
#pragma once

#include "collective/deferred_score_mod.cuh"
#include "forward/wgmma/products.cuh"
#include "forward/wgmma/store.cuh"

namespace fa::kernels::wgmma {

template <class B>
class Consumer {
 public:
  /// group: the number of this warpgroup among the consumers.
  __device__ Consumer(const Params &p, const TensorMaps &maps, const SharedMemory<B> &shared, int group)
      : p_(p),
        maps_(maps),
        shared_(shared),
        state_(*shared.state),
        partner_(shared),
        queries_(shared.queries + (B::row_groups == 1 ? 0 : group) * B::QueryTile::bytes),  // group is uniform
        keys_(shared.keys),
        values_(shared.values),
        group_(group),
        c_(in_register(unit())) {}

  __device__ void run() {
    if (group_ == B::consumers - 1) warp_scheduler_barrier_arrive();  // the first warpgroup may begin
    for (bool odd = false;; odd = !odd) {
      mbarrier_wait(shared_address(&state_.q_full), odd);
      const WorkItem &item = state_.items[odd];
      const WorkPass pass = item.pass;
      if (pass == WorkPass::done) break;
      if (pass == WorkPass::drain) {
        if (!any_fixup()) break;
        release_queries();
      } else {
        attend(item);
      }
    }
    if (group_ == 0) warp_scheduler_barrier_sync();  // takes the last arrival, so that arrivals and waits are even
    cp_async_bulk_wait_group_read();
  }

 private:
  using Scores = typename B::Scores;

  /// The factor from scores to exponents of base 2.
  __device__ float unit() const { return (B::score_mod ? score_scale(p_) : p_.scale) * log2_e; }

  /// A warp's place for results.
  __device__ uint32_t out() const { return shared_.out + (threadIdx.x / 32 - 4) * B::OutTile::bytes; }

  __device__ static int lane() { return threadIdx.x % 32; }
  __device__ static bool leads() { return threadIdx.x % 128 == 0; }

  __device__ void warp_scheduler_barrier_sync() const {
    if (B::shape.pingpong) bar_sync(warp_scheduler_barrier + group_, 256);
  }
  __device__ void warp_scheduler_barrier_arrive() const {
    if (B::shape.pingpong) bar_arrive(warp_scheduler_barrier + (group_ + 1) % B::consumers, 256);
  }

  /// Waits until the main passes of all warpgroups are over.
  __device__ bool any_fixup() const {
    bar_sync(fixup_bitmap, 32 + 128 * B::consumers);
    return state_.fixup_bitmap.any();
  }

  __device__ static void sync_consumers() { bar_sync(all_consumers, 128 * B::consumers); }

  __device__ void release_queries() const {
    __syncwarp();
    if (lane() == 0) mbarrier_arrive(shared_address(&state_.q_empty));
  }

  __device__ typename B::Keys wait_for_keys() const {
    mbarrier_wait(shared_address(state_.k_full + at_keys_.stage), at_keys_.parity);
    return keys_ + at_keys_.stage;
  }
  /// Values in keys are released with release_values.
  __device__ void release_keys() {
    if (!B::values_in_keys && leads()) mbarrier_arrive(shared_address(state_.k_empty + at_keys_.stage));
    at_keys_.advance();
  }
  __device__ void wait_until_values_are_full() const {
    if (!B::values_in_keys) mbarrier_wait(shared_address(state_.v_full + at_values_.stage), at_values_.parity);
  }
  __device__ typename B::Values wait_for_values() const {
    wait_until_values_are_full();
    return values_ + at_values_.stage;
  }
  __device__ void release_values() {
    if (leads())
      mbarrier_arrive(shared_address((B::values_in_keys ? state_.k_empty : state_.v_empty) + at_values_.stage));
    at_values_.advance();
  }

  /// The keys that this lane's rows attend.
  __device__ RowsOfLane find_rows(const WorkTile &w) const {
    RowsOfLane rows;
    const Interval split = keys_of_split(p_, w.sequence, w.split, B::keys);
    unroll<2>([&](int r) {
      const int32_t row = row_of_lane<B>(p_, w, r);
      rows.keys[r] = row < w.rows ? attended_of_split(p_, w, split, row) : Interval{0, 0};
    });
    return rows;
  }

  /// Applies softcap and ALiBi to a tile's raw scores. Registers are few: the parameters of softcap and ALiBi are
  /// looked up for each tile.
  __device__ __forceinline__ void change(Scores &s, const WorkTile &w, const RowsOfLane &rows, int tile) const {
    if constexpr (B::score_mod)
      if (p_.softcap > 0) cap_products(s, softcap_steepness(p_));
    if constexpr (B::sloped)
      if (p_.alibi_slopes.data != nullptr)
        slope(s, w, rows, tile * B::keys + B::first_key() + B::Scores::first_column(lane()));
  }

  /// ALiBi; first: the key of a lane's first score.
  __device__ __forceinline__ void slope(Scores &s, const WorkTile &w, const RowsOfLane &rows, int first) const {
    unroll<2>([&](int r) {
      const Row row = row_at(p_, w, min(row_of_lane<B>(p_, w, r), w.rows - 1));
      const float slope = __fdividef(alibi_slope(p_, w.sequence, row.head), score_scale(p_));
      const float distance = float(row.query + w.sequence.offset - first);
      s.for_each_in_row(r, [=](float &x, int column) { x = add_alibi(x, slope, distance - float(column)); });
    });
  }

  __device__ void attend(const WorkItem &item) {
    RowsOfLane rows = find_rows(item.work);
    if (item.pass == WorkPass::fixup) {
      unroll<2>([&](int r) { rows.fixups[r] = fixups_[r]; });
      attend_exactly(item, rows);
    } else {
      attend_tiles(item, rows);
    }
  }

  /// Scores of keys that a row does not attend become -inf, NaN included.
  __device__ void mask(Scores &s, const RowsOfLane &rows, int tile) const {
    const int first = tile * B::keys + B::first_key() + B::Scores::first_column(lane());
    unroll<2>([&](int r) {
      const Interval columns = {rows.keys[r].low - first, rows.keys[r].high - first};
      s.for_each_in_row(r, [=](float &x, int column) {
        if (!columns.holds(column)) x = -infinity;
      });
    });
  }

  /// From scores to weights. Begins: some rows may not have a weight yet. True when O must be multiplied by *a.
  template <bool Begins, class Exact>
  __device__ __forceinline__ bool online_softmax(OnlineSoftmax<B> &softmax, Scores &s, typename B::Rows *a,
                                                 Exact exact) {
    const float c = B::dim <= 128 ? c_ : unit();
    bool begun = false;
    const bool sloped = B::sloped && p_.alibi_slopes.data != nullptr;
    if constexpr (Begins)
      begun = softmax.begin(s, c, exact, sloped, a, partner_);  // m' = max(m, rowmax S) of a row's first tile
    softmax.exponentiate(s, c, exact);                          // P = exp2(c S - c m')
    return softmax.template add_weights<Begins>(s, exact, a, partner_) ||
           begun;  // l = l a + rowsum P, further tiles' m'
  }

  /// The accumulators that all key blocks of a work tile pass through.
  struct Pass {
    OnlineSoftmax<B> softmax;
    typename B::Out out;
    Weights<B> weights;  // of the tile before

    __device__ explicit Pass(const RowsOfLane &rows) : softmax([&](int r) { return !rows.keys[r].empty(); }) {
      out.clear();
    }
  };

  /// S of a tile, and O += P V of the tile before it.
  template <bool Masked>
  __device__ __forceinline__ void step(Pass &pass, const WorkItem &item, const RowsOfLane &rows, int tile) {
    Scores s;
    typename B::Rows a;
    const auto keys = wait_for_keys();
    const auto values = B::stages > 1 ? wait_for_values() : values_ + at_values_.stage;
    warp_scheduler_barrier_sync();
    fence_products<B>(pass.out, pass.weights);
    multiply_keys<B>(s, queries_, keys);  // S = Q K^T
    if (B::stages == 1) {                 // values have only now taken the place of those before
      wait_until_values_are_full();
      wgmma_fence();
    }
    multiply_values<B>(pass.out, pass.weights, values);  // O = O + P V
    warp_scheduler_barrier_arrive();
    wgmma_wait_group<1>();
    pin(s);
    release_keys();
    change(s, item.work, rows, tile);
    if constexpr (Masked) mask(s, rows, tile);
    const bool moved = online_softmax<(Masked || B::sloped)>(pass.softmax, s, &a, [](int) { return false; });
    wgmma_wait_group<0>();
    pin(pass.out);
    pin(s);
    release_values();
    if (moved) pass.out.scale_rows(a);  // O = O a
    pass.weights.pack(s, partner_);
  }

  __device__ void attend_tiles(const WorkItem &item, RowsOfLane &rows) {
    Pass pass(rows);
    const KeyBlockRange &tiles = item.tiles;  // looked up for each loop
    int tile = tiles.end - 1;
    if (tile >= tiles.first) {
      {
        Scores s;
        typename B::Rows a;
        const auto keys = wait_for_keys();
        wgmma_fence();
        multiply_keys<B>(s, queries_, keys);
        wgmma_wait_group<0>();
        pin(s);
        release_keys();
        change(s, item.work, rows, tile);
        mask(s, rows, tile);
        online_softmax<true>(pass.softmax, s, &a, [](int) { return false; });
        pass.weights.pack(s, partner_);
      }
      clear_values(item.work.sequence.keys - tile * B::keys);
      tile--;
      int last = max(tiles.first, tiles.full_end);
#pragma unroll 1
      for (; tile >= last; tile--) step<true>(pass, item, rows, tile);
      last = max(tiles.first, tiles.full_first);
#pragma unroll 1
      for (; tile >= last; tile--) step<false>(pass, item, rows, tile);
      last = tiles.first;
#pragma unroll 1
      for (; tile >= last; tile--) step<true>(pass, item, rows, tile);
      release_queries();
      const auto values = wait_for_values();
      fence_products<B>(pass.out, pass.weights);
      multiply_values<B>(pass.out, pass.weights, values);
      wgmma_wait_group<0>();
      pin(pass.out);
      release_values();
    } else {
      release_queries();
    }
    store<B>(p_, maps_, item, out(), pass.out, pass.softmax, &rows, partner_);
    unroll<2>([&](int r) { fixups_[r] = rows.fixups[r]; });
    const bool needs = __any_sync(~0u, (rows.fixups[0] | rows.fixups[1]) != 0);
    if (needs && item.pass == WorkPass::main && lane() == 0) state_.fixup_bitmap.set(p_, item.number);
  }

  /// Clears the values of the first tile from key `keys` on, where the sequence ends: their weights are 0, but they may
  /// be another sequence's, or unused memory, and not finite.
  __device__ void clear_values(int keys) const {
    if (keys >= B::keys) return;
    if (B::values_in_keys) sync_consumers();  // who still multiplies the keys
    const uint32_t values = wait_for_values().address();
    constexpr int chunks = B::dim_v / 8;
#pragma unroll 1
    for (int i = keys * chunks + group_ * 128 + threadIdx.x % 128; i < B::keys * chunks; i += 128 * B::consumers)
      st_shared_v4_b32(values + B::ValueTile::offset(i / chunks, i % chunks), {});
    fence_proxy_async();
    sync_consumers();
  }

  /// The fix-up pass: attend_tiles without overlap of steps; values that are not finite count as 0, and weights of rows
  /// that need it are exact.
  __device__ void attend_exactly(const WorkItem &item, RowsOfLane &rows) {
    Pass pass(rows);
    const auto exact = [&](int r) { return (rows.fixups[r] & exact_weights) != 0; };
#pragma unroll 1
    for (int tile = item.tiles.end - 1; tile >= item.tiles.first; tile--) {
      Scores s;
      typename B::Rows a;
      const auto keys = wait_for_keys();
      wgmma_fence();
      multiply_keys<B>(s, queries_, keys);
      wgmma_wait_group<0>();
      pin(s);
      release_keys();
      change(s, item.work, rows, tile);
      mask(s, rows, tile);
      if (online_softmax<true>(pass.softmax, s, &a, exact)) pass.out.scale_rows(a);
      pass.weights.pack(s, partner_);
      const auto values = wait_for_values();
      if (B::values_in_keys) sync_consumers();
      clear_nonfinite(values.address(), B::ValueTile::bytes, infinities<B::dtype>, threadIdx.x - 128,
                      128 * B::consumers);
      fence_proxy_async();
      sync_consumers();
      fence_products<B>(pass.out, pass.weights);
      multiply_values<B>(pass.out, pass.weights, values);
      wgmma_wait_group<0>();
      pin(pass.out);
      release_values();
    }
    release_queries();
    cp_async_bulk_wait_group();  // the results of the main pass
    __syncwarp();
    store<B>(p_, maps_, item, out(), pass.out, pass.softmax, &rows, partner_);
  }

  const Params &p_;
  const TensorMaps &maps_;
  const SharedMemory<B> &shared_;
  State<B> &state_;
  Partner<B> partner_;
  typename B::Queries queries_;
  typename B::Keys keys_;  // of the first stage
  typename B::Values values_;
  int group_;
  float c_;  // unit(), where there are registers for it
  PipelineState<B::stages> at_keys_, at_values_;
  uint32_t fixups_[2];  // Fixup bits of the detect pass, for the fix-up pass
};

}  // namespace fa::kernels::wgmma
