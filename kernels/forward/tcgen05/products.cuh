// The thread that starts the products: S = Q K^T and O = O + P V.
#pragma once

#include "forward/tcgen05/block.cuh"

namespace fa::kernels::tcgen05 {

template <class B>
class Products {
 public:
  __device__ Products(const Params &p, const SharedMemory<B> &shared) : p_(p), shared_(shared), state_(*shared.state) {}

  __device__ void run() {
    // Once by this thread, once by its products, whose commit says nothing of the thread's own reads.
    const auto release = [&] { mbarrier_arrive(shared_address(&state_.q_empty)); };
    for_each_item<B>(
        state_,
        [&](const WorkItem &item) {
          release();
          item.tiles.first < item.tiles.end ? multiply(item) : release();
        },
        [&] { release(), release(); });
  }

 private:
  /// With two tiles of queries one's next scores follow upon its sums, with one they come before, so that they are
  /// weighed while the sums are added to.
  __device__ void multiply(const WorkItem &item) {
    const int tiles = tiles_of<B>(p_, item.work), iterations = item.tiles.end - item.tiles.first;
    for (int t = 0; t < tiles; t++) multiply_keys(t, 0, t == tiles - 1, iterations == 1);
#pragma unroll 1
    for (int iteration = 0; iteration < iterations; iteration++) {
#pragma unroll 1
      for (int t = 0; t < tiles; t++) {
        const bool last = t == tiles - 1, more = iteration < iterations - 1;
        if (B::queries == 1 && more) multiply_keys(t, iteration + 1, last, iteration == iterations - 2);
        multiply_values(t, iteration, last);
        if (B::queries == 2 && more) multiply_keys(t, iteration + 1, last, iteration == iterations - 2);
      }
    }
  }

  /// S = Q K^T. releases_keys: it is the last one with these keys; releases_queries: they are the last keys.
  __device__ __forceinline__ void multiply_keys(int t, int iteration, bool releases_keys, bool releases_queries) {
    using Tile = typename B::KeyTile;
    mbarrier_wait(shared_address(state_.k_full + keys_.stage), keys_.parity);
    const SharedOperand<typename B::QueryTile> q(shared_.queries + t * B::QueryTile::bytes);
    const SharedOperand<Tile> k(shared_.keys + keys_.stage * Tile::bytes);
    constexpr uint32_t descriptor = instruction_descriptor<typename B::Element, B::keys, false>();
    const int to = scores_of<B>(t, iteration);
    const uint32_t s = Columns<B>::scores(to).address;
    unroll<B::dim / 16>([&](int i) { tcgen05_mma(s, q.rows(i), k.rows(i), descriptor, i > 0); });
    tcgen05_commit(shared_address(&state_.s_full[to]));
    if (!releases_keys) return;
    tcgen05_commit(shared_address(state_.k_empty + keys_.stage));
    if (releases_queries) tcgen05_commit(shared_address(&state_.q_empty));
    keys_.advance();
  }

  /// O = O + P V, or P V where there is no O yet. releases: it is the last one with these values.
  __device__ __forceinline__ void multiply_values(int t, int iteration, bool releases) {
    using Tile = typename B::ValueTile;
    mbarrier_wait(shared_address(state_.v_full + values_.stage), values_.parity);
    const int from = scores_of<B>(t, iteration);
    weights_.wait(state_.p_full[from], from);
    tcgen05_fence_after_thread_sync();
    const SharedOperand<Tile> v(shared_.values + values_.stage * Tile::bytes);
    constexpr uint32_t descriptor = instruction_descriptor<typename B::Element, B::dim_v, true>();
    const typename B::Weights p = Columns<B>::weights(from);
    const uint32_t o = Columns<B>::out(t).address;
    unroll<B::keys / 16>([&](int i) {
      if (B::has_rest && i == B::early_keys / 16) {
        rest_.wait(state_.p_rest[from], from);
        tcgen05_fence_after_thread_sync();
      }
      tcgen05_mma(o, p.depths(i), v.columns(i), descriptor, iteration > 0 || i > 0);
    });
    tcgen05_commit(shared_address(&state_.o_full[t]));
    if (!releases) return;
    tcgen05_commit(shared_address(state_.v_empty + values_.stage));
    values_.advance();
  }

  const Params &p_;
  const SharedMemory<B> &shared_;
  State<B> &state_;
  PipelineState<B::stages> keys_, values_;
  Phases weights_, rest_;
};

}  // namespace fa::kernels::tcgen05
