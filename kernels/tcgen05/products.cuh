// The thread that starts the products: S = Q K^T and O = O + P V.
#pragma once

#include "tcgen05/block.cuh"

namespace fa::kernels::tcgen05 {

template <class B>
class Products {
 public:
  __device__ explicit Products(const SharedMemory<B> &shared) : shared_(shared), state_(*shared.state) {}

  __device__ void run() {
    // Once by this thread, once by its products, whose commit says nothing of the thread's own reads.
    const auto release = [&] { mbarrier_arrive(shared_address(&state_.q_empty)); };
    for_each_item(
        state_,
        [&](const Item &item) {
          release();
          item.tiles.first < item.tiles.end ? multiply(item) : release();
        },
        [&] { release(), release(); });
  }

 private:
  __device__ void multiply(const Item &item) {
    const int tiles = tiles_of(item.work), turns = item.tiles.end - item.tiles.first;
    for (int t = 0; t < tiles; t++) multiply_keys(t, t == tiles - 1, turns == 1);
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
#pragma unroll 1
      for (int t = 0; t < tiles; t++) {
        const bool last = t == tiles - 1;
        multiply_values(t, turn > 0, last);
        if (turn == turns - 1)
          tcgen05_commit(shared_address(&state_.o_full[t]));
        else
          multiply_keys(t, last, turn == turns - 2);
      }
    }
  }

  /// S = Q K^T. releases_keys: it is the last one with these keys; releases_queries: they are the last keys.
  __device__ void multiply_keys(int t, bool releases_keys, bool releases_queries) {
    using Tile = typename B::KeyTile;
    mbarrier_wait(shared_address(state_.k_full + keys_.stage), keys_.parity);
    const SharedOperand<typename B::QueryTile> q(shared_.queries + t * B::QueryTile::bytes);
    const SharedOperand<Tile> k(shared_.keys + keys_.stage * Tile::bytes);
    constexpr uint32_t descriptor = instruction_descriptor<typename B::Element, B::keys, false>();
    const uint32_t s = Columns<B>::scores(t).address;
    unroll<B::dim / 16>([&](int i) { tcgen05_mma(s, q.rows(i), k.rows(i), descriptor, i > 0); });
    tcgen05_commit(shared_address(&state_.s_full[t]));
    if (!releases_keys) return;
    tcgen05_commit(shared_address(state_.k_empty + keys_.stage));
    if (releases_queries) tcgen05_commit(shared_address(&state_.q_empty));
    keys_.advance();
  }

  /// O = O + P V, or P V where there is no O yet. releases: it is the last one with these values.
  __device__ void multiply_values(int t, bool accumulate, bool releases) {
    using Tile = typename B::KeyTile;
    mbarrier_wait(shared_address(state_.v_full + values_.stage), values_.parity);
    weights_.wait(state_.p_full[t], t);
    tcgen05_fence_after_thread_sync();
    const SharedOperand<Tile> v(shared_.values + values_.stage * Tile::bytes);
    constexpr uint32_t descriptor = instruction_descriptor<typename B::Element, B::dim, true>();
    const typename B::Weights p = Columns<B>::weights(t);
    const uint32_t o = Columns<B>::out(t).address;
    unroll<B::keys / 16>([&](int i) { tcgen05_mma(o, p.depths(i), v.columns(i), descriptor, accumulate || i > 0); });
    if (!releases) return;
    tcgen05_commit(shared_address(state_.v_empty + values_.stage));
    values_.advance();
  }

  const SharedMemory<B> &shared_;
  State<B> &state_;
  Position<B::stages> keys_, values_;
  Phases weights_;
};

}  // namespace fa::kernels::tcgen05
