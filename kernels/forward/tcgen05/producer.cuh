// The load warp: finds a block's work tiles and loads their queries, keys and values.
#pragma once

#include "collective/tma_producer.cuh"
#include "forward/tcgen05/block.cuh"

namespace fa::kernels::tcgen05 {

template <class B>
class Producer : public TmaProducer<Producer<B>, B, SharedMemory<B>, true> {
  using Base = TmaProducer<Producer<B>, B, SharedMemory<B>, true>;
  friend Base;
  using Base::maps_, Base::p_, Base::shared_, Base::state_;

 public:
  __device__ Producer(const Params &p, const TensorMaps &maps, const SharedMemory<B> &shared) : Base(p, maps, shared) {}

  __device__ void run() {
#pragma unroll 1
    for (bool repeats = false;; repeats = true) {
      uint32_t index = blockIdx.x;
#pragma unroll 1
      for (int32_t number = 0; index != no_index; number++) {
        const uint32_t tile = quotient(index, p_.by_num_splits);
        const WorkTile w = get_work_tile(p_, p_.schedule.tile_rows, tile, index - tile * p_.schedule.num_splits);
        if (w.rows > 0 && (!repeats || state_.fixup_bitmap.has(p_, number)))
          this->send(repeats ? WorkPass::detect : WorkPass::main, number, w);
        const bool asks = !repeats && number < max_work_tiles;
        index = asks ? take_over(number) : number < max_work_tiles ? state_.work_indices[number] : no_index;
      }
      if (repeats) break;
      this->signal(WorkPass::drain);
      bar_sync(fixup_bitmap, 32 + 128);
      if (!state_.fixup_bitmap.any()) break;
    }
    this->signal(WorkPass::done);
  }

 private:
  static constexpr uint32_t no_index = ~0u;

  /// Asks for the index of another work tile, whose block has not begun, so that all end together. Those are looked up
  /// when they are processed again. A block that has no room to remember more leaves the rest to others. The copies of
  /// the work tile before it have begun, and take longer than the answer. A request at its start would keep the next
  /// one from blocks that are free first.
  __device__ uint32_t take_over(int32_t number) {
    if (this->is_leader()) clusterlaunchcontrol_try_cancel(&state_.response, &state_.answered);
    __syncwarp();
    answers_.wait(state_.answered, 0);
    const uint32_t index = clusterlaunchcontrol_query_cancel(&state_.response, no_index);
    if (this->is_leader()) state_.work_indices[number] = index;
    fence_proxy_async();
    __syncwarp();
    return index;
  }

  __device__ static int lane() { return tcgen05::lane(); }

  /// By the leader: a box for each tile of queries.
  __device__ void load_queries(const WorkTile &w) const {
    const uint32_t q_full = shared_address(&state_.q_full);
    const int count = tiles_of<B>(p_, w);
    mbarrier_arrive_expect_tx(q_full, count * rows_of_box<B>(p_) * B::dim * 2);
    const int32_t packed = p_.schedule.heads_per_tile;
#pragma unroll 1
    for (int t = 0; t < count; t++) {
      const Row row = row_at(p_, w, w.first_row + t * rows_of_box<B>(p_));
      load_rows<typename B::QueryTile>(
          shared_.queries + t * B::QueryTile::bytes, 0, maps_.q, q_full,
          {w.head_group * packed, w.sequence.q_first + row.query, q_batch(p_, w.sequence)});
    }
  }

  Phases answers_;
};

}  // namespace fa::kernels::tcgen05
