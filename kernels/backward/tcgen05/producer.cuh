// The warps that bring a step's inputs: its tiles, and its statistics.
#pragma once

#include "backward/tcgen05/block.cuh"
#include "collective/nonfinite.cuh"

namespace fa::kernels::backward_tcgen05 {

/// By one thread.
template <class B>
__device__ inline void load_tiles(const BackwardParams &p, const TensorMaps &maps, const SharedMemory<B> &shared) {
  State<B> &state = *shared.state;
  const Sequence &s = state.sequence;
  const KeyWorkTile &w = state.work;
  const uint32_t kv_full = shared_address(&state.kv_full);
  mbarrier_arrive_expect_tx(kv_full, 2 * B::OwnTile::bytes);
  const int32_t key = s.k_first + w.first;
  load_rows<typename B::OwnTile>(shared.k(), 0, maps.k, kv_full, {key, w.kv_head, s.k_batch});
  load_rows<typename B::OwnTile>(shared.v(), 0, maps.v, kv_full, {key, w.kv_head, s.k_batch});
  const auto batch = int32_t(q_batch(p, s));
  for_each_step(state, [&](uint32_t n, StreamCoord tile) {
    const int32_t row = s.q_first + tile.tile * B::columns, head = w.kv_head * state.group + tile.head;
    const auto load = [&](uint64_t &full, uint64_t &empty, uint32_t phase, uint32_t to, const TensorMap &map) {
      wait(empty, phase ^ 1);
      mbarrier_arrive_expect_tx(shared_address(&full), B::StreamedTile::bytes);
      load_rows<typename B::StreamedTile>(to, 0, map, shared_address(&full), {head, row, batch});
    };
    const uint32_t q = n % B::stages, dout = n % B::dout_stages;
    load(state.q_full[q], state.q_empty[q], n / B::stages, shared.q(q), maps.q);
    load(state.do_full[dout], state.do_empty[dout], n / B::dout_stages, shared.dout(dout), maps.out);
  });
}

/// The warp of statistics.
template <class B>
class Statistics {
 public:
  __device__ Statistics(const BackwardParams &p, const SharedMemory<B> &shared)
      : p_(p), shared_(shared), state_(*shared.state) {}

  __device__ void run() {
    for_each_step(state_, [&](uint32_t n, StreamCoord tile) {
      const int row = tile.tile * B::columns;
      const RowStats *from = p_.row_stats + state_.row + tile.head * p_.stats_rows + row;
      RowStats of[B::columns / 32];
      unroll<B::columns / 32>([&](int i) { of[i] = from[32 * i + lane()]; });
      const uint32_t stage = n % B::stages;
      wait(state_.q_empty[stage], n / B::stages ^ 1);
      const Pairs pairs = pairs_of(n, row, of);
      constexpr float half = B::halves ? 1 : 0;
      unroll<B::columns / 32>([&](int i) {
        state_.neg_lse_log2[stage][32 * i + lane()] = of[i].neg_lse_log2 - half;
        state_.neg_dpsum[stage][32 * i + lane()] = of[i].neg_dpsum;
      });
      if (lane() == 0) state_.pairs[n % 4] = pairs;
      arrive_as_warp(state_.stats_full[stage]);
    });
  }

 private:
  /// Where dO has an element that is not finite, so has its product with the result, unless the caller gave that.
  __device__ Pairs pairs_of(uint32_t n, int row, const RowStats (&of)[B::columns / 32]) {
    bool without_keys = false, odd = false;
    unroll<B::columns / 32>([&](int i) {
      without_keys |= of[i].neg_lse_log2 == -infinity;
      odd |= !is_finite(of[i].neg_lse_log2) || !is_finite(of[i].neg_dpsum);
    });
    const bool inside = row >= state_.full.low && row + B::columns <= state_.full.high;
    without_keys = __any_sync(~0u, without_keys), odd = __any_sync(~0u, odd);
    if (inside && !without_keys) return Pairs::all;
    if (has_nonfinite_keys()) return Pairs::careful_of_keys;
    if (odd || p_.given_delta.data != nullptr) return Pairs::careful;
    wait(state_.q_full[n % B::stages], n / B::stages);
    return has_nonfinite(shared_.q(n % B::stages), B::StreamedTile::bytes) ? Pairs::careful : Pairs::masked;
  }

  /// Whether K has an element that is not finite; found at the first call.
  __device__ bool has_nonfinite_keys() {
    if (keys_ == unknown) {
      wait(state_.kv_full, 0);
      keys_ = has_nonfinite(shared_.k(), B::OwnTile::bytes) ? nonfinite : finite;
    }
    return keys_ == nonfinite;
  }

  /// Whether an element of a tile is NaN or infinite.
  __device__ static bool has_nonfinite(uint32_t tile, int bytes) {
    bool any = false;
#pragma unroll 4
    for (int at = lane() * 16; at < bytes; at += 32 * 16) {
      const uint4 chunk = ld_shared_v4_b32(tile + at);
      for (const uint32_t word : {chunk.x, chunk.y, chunk.z, chunk.w}) any |= finite_halves(word, B::exponents) != word;
    }
    return __any_sync(~0u, any);
  }

  const BackwardParams &p_;
  const SharedMemory<B> &shared_;
  State<B> &state_;
  enum { unknown, finite, nonfinite } keys_ = unknown;
};

}  // namespace fa::kernels::backward_tcgen05
