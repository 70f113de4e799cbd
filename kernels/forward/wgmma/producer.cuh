// The producer warp: finds a block's work tiles and loads their queries, keys and values.
#pragma once

#include "collective/tma_producer.cuh"
#include "forward/wgmma/block.cuh"

namespace fa::kernels::wgmma {

template <class B>
class Producer : public TmaProducer<Producer<B>, B, SharedMemory<B>, false> {
  using Base = TmaProducer<Producer<B>, B, SharedMemory<B>, false>;
  friend Base;
  using Base::items_, Base::maps_, Base::p_, Base::shared_, Base::state_;

 public:
  __device__ Producer(const Params &p, const TensorMaps &maps, uint32_t *tickets, const SharedMemory<B> &shared)
      : Base(p, maps, shared), tickets_(tickets) {}

  __device__ void run() {
#pragma unroll 1
    for (;;) {
      int32_t number = 0;
#pragma unroll 1
      for (uint32_t index = blockIdx.x; index < p_.schedule.blocks; index = next_index(index, ++number)) {
        const uint32_t tile = quotient(index, p_.by_num_splits);
        const WorkTile w = get_work_tile(p_, rows_of_work<B>(p_), tile, index - tile * p_.schedule.num_splits);
        if (w.rows > 0 && (!repeats() || state_.fixup_bitmap.has(p_, number)))
          this->send(repeats() ? WorkPass::detect : WorkPass::main, number, w);
      }
      const bool over = repeats();
      this->signal(over ? WorkPass::done : WorkPass::drain);
      if (over || !any_fixup()) return;
      items_ += second_round;
    }
  }

 private:
  static constexpr uint32_t second_round = 1u << 30;  // in items_: registers are few
  static constexpr uint32_t no_index = ~0u;

  /// Processes again the work tiles whose bit is set in the fix-up bitmap.
  __device__ bool repeats() const { return items_ >= second_round; }

  /// The index of the block's next work tile, which is its number `number`: a stride after the last one; or, by
  /// tickets, the first that no block has taken, so that all end together. Those are looked up when they are processed
  /// again. A block that has no room for more leaves the rest to others.
  __device__ uint32_t next_index(uint32_t index, int32_t number) const {
    if (tickets_ == nullptr) return index + gridDim.x;
    if (!repeats()) {
      if (lane() == 0)
        state_.work_indices[number] = number < max_work_tiles ? gridDim.x + atomicAdd(tickets_, 1) : no_index;
      __syncwarp();
    }
    return state_.work_indices[number];
  }

  /// Waits until every consumer has finished the main pass.
  __device__ bool any_fixup() const {
    bar_sync(fixup_bitmap, 32 + 128 * B::consumers);
    return state_.fixup_bitmap.any();
  }

  /// The producer is the block's first warp.
  __device__ static int lane() { return threadIdx.x; }

  /// By the leader: a box for each row group.
  __device__ void load_queries(const WorkTile &w) const {
    const uint32_t q_full = shared_address(&state_.q_full);
    mbarrier_arrive_expect_tx(q_full, rows_of_work<B>(p_) * B::dim * 2);
    const int32_t packed = p_.schedule.heads_per_tile;
    unroll<B::row_groups>([&](int i) {
      const Row row = row_at(p_, w, w.first_row + i * rows_of_group<B>(p_));
      load_rows<typename B::QueryTile>(
          shared_.queries + i * B::QueryTile::bytes, 0, maps_.q, q_full,
          {w.head_group * packed, w.sequence.q_first + row.query, q_batch(p_, w.sequence)});
    });
  }

  uint32_t *tickets_;  // the number that blocks have taken; or nullptr
};

}  // namespace fa::kernels::wgmma
