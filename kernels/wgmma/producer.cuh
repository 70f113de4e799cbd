// The producer warp: finds a block's work tiles and loads their queries, keys and values.
#pragma once

#include "common/gather.cuh"
#include "wgmma/block.cuh"

namespace fa::kernels::wgmma {

template <class B>
class Producer {
 public:
  __device__ Producer(const Params &p, const TensorMaps &maps, const SharedMemory<B> &shared)
      : p_(p), maps_(maps), shared_(shared), state_(*shared.state) {}

  __device__ void run() {
#pragma unroll 1
    for (;;) {
      int32_t number = 0;
      for_each_work_tile(p_, rows_of_work<B>(p_), [&](const WorkTile &w) {
        if (w.rows > 0 && (!repeats() || state_.fixup_bitmap.has(p_, number)))
          send(repeats() ? WorkPass::detect : WorkPass::main, number, w);
        number++;
      });
      const bool over = repeats();
      signal(over ? WorkPass::done : WorkPass::drain);
      if (over || !any_fixup()) return;
      items_ += second_round;
    }
  }

 private:
  static constexpr uint32_t second_round = 1u << 30;

  /// Processes again the work tiles whose bit is set in the fix-up bitmap.
  __device__ bool repeats() const {
    return items_ >= second_round;
  }

  __device__ bool is_leader() const {
    return threadIdx.x == 0;
  }

  /// Of a tile's boxes each is a lane's to look up and to copy; where keys are not paged, there is one.
  __device__ bool has_box() const {
    return int(threadIdx.x) * maps_.rows_of_keys < B::keys;
  }

  /// Waits until every consumer has come to the pause.
  __device__ bool any_fixup() const {
    bar_sync(fixup_bitmap, 32 + 128 * B::consumers);
    return state_.fixup_bitmap.any();
  }

  /// The place of the next item, once it and the queries before it are free.
  __device__ WorkItem &next_item() {
    mbarrier_wait(shared_address(&state_.q_empty), items_ % 2 ^ 1);
    return state_.items[items_++ % 2];
  }

  __device__ void signal(WorkPass pass) {
    WorkItem &item = next_item();
    if (is_leader()) {
      item.pass = pass;
      mbarrier_arrive(shared_address(&state_.q_full));
    }
  }

  /// Hands a work tile to the consumers; after detect, once more for fixup. Registers are few here: the work tile is
  /// looked up in its item.
  __device__ void send(WorkPass pass, int32_t number, const WorkTile &given) {
    WorkItem &first = next_item();
    if (is_leader()) first.pass = pass, first.number = number, first.work = given;
    __syncwarp();
    bring(first);
    if (pass == WorkPass::main) return;
    WorkItem &second = next_item();
    if (is_leader()) second = first, second.pass = WorkPass::fixup;
    __syncwarp();
    bring(second);
  }

  /// Copies what an item needs.
  __device__ void bring(WorkItem &item) {
    const WorkTile &w = item.work;
    const KeyBlockRange tiles = key_block_range<B::rows, B::keys>(p_, w);
    if (is_leader()) {
      item.tiles = tiles;
      const uint32_t q_full = shared_address(&state_.q_full);
      mbarrier_arrive_expect_tx(q_full, rows_of_work<B>(p_) * B::dim * 2);
      const int32_t packed = p_.schedule.heads_per_tile;
      unroll<B::consumers>([&](int i) {
        const Row row = row_at(p_, w, w.first_row + i * rows_of_group<B>(p_));
        load_rows<typename B::QueryTile>(
            shared_.queries + i * B::QueryTile::bytes, 0, maps_.q, q_full,
            {w.head_group * packed, w.sequence.q_first + row.query, q_batch(p_, w.sequence)});
      });
    }
    __syncwarp();
    if constexpr (producer_has_registers(B::dim))
      if (maps_.rows_of_keys == 0) return gather(w, tiles);
    copy_boxes(w, tiles);
  }

  /// In the order in which they are used: the next tile's keys before this one's values. Pages are requested an
  /// iteration before their keys are copied.
  __device__ void copy_boxes(const WorkTile &w, const KeyBlockRange &tiles) {
    int32_t here = 0, next = find_box(w, tiles.end - 1, tiles.first);
#pragma unroll 1
    for (int tile = tiles.end; tile >= tiles.first; tile--) {
      const int32_t after = find_box(w, tile - 2, tiles.first);
      if (tile > tiles.first)
        load<typename B::KeyTile>(maps_.k, shared_.keys, state_.k_full, state_.k_empty, &keys_, w, tile - 1, next);
      if (tile < tiles.end)
        load<typename B::ValueTile>(maps_.v, shared_.values, state_.v_full, state_.v_empty, &values_, w, tile, here);
      here = next, next = after;
    }
  }

  /// The same of rows on pages that no boxes serve. Pages are on their way while a stage becomes free.
  __device__ void gather(const WorkTile &w, const KeyBlockRange &tiles) {
    using Pages = typename Gather<B>::Pages;
    Gather<B> rows;
    Pages here = {};
#pragma unroll 1
    for (int tile = tiles.end; tile >= tiles.first; tile--) {
      Pages next = {};
      if (tile > tiles.first) {
        next = Gather<B>::find(p_, w, tile - 1);
        Gather<B>::template copy<typename B::KeyTile>(
            p_, p_.k, p_.k_steps, p_.head_dim, w, tile - 1, next,
            free_stage<typename B::KeyTile>(shared_.keys, state_.k_empty, keys_));
        rows.signal_later(shared_address(state_.k_full + keys_.stage));
        keys_.advance();
      }
      if (tile < tiles.end) {
        Gather<B>::template copy<typename B::ValueTile>(
            p_, p_.v, p_.v_steps, p_.head_dim_v, w, tile, here,
            free_stage<typename B::ValueTile>(shared_.values, state_.v_empty, values_));
        rows.signal_later(shared_address(state_.v_full + values_.stage));
        values_.advance();
      }
      here = next;
    }
    rows.signal_now();
  }

  /// The next stage of a ring, once it is free.
  template <class Tile>
  __device__ uint32_t free_stage(uint32_t ring, uint64_t *empty, const PipelineState<B::stages> &at) const {
    mbarrier_wait(shared_address(empty + at.stage), at.parity ^ 1);
    return ring + at.stage * Tile::bytes;
  }

  /// Where the map has this lane's box of a tile, not before tile `first`: its page, or the batch entry. Boxes without
  /// keys are outside the tensor, where TMA finds zeros; their entries of the table are not read.
  __device__ int32_t find_box(const WorkTile &w, int tile, int first) const {
    if (p_.page_size == 0) return w.sequence.k_batch;
    if (tile < first || !has_box()) return -1;
    const int32_t token = tile * B::keys + threadIdx.x * maps_.rows_of_keys;
    return token < w.sequence.keys ? page_of(p_, w.sequence, page_number(p_, token)) : -1;
  }

  /// Copies a tile into the next stage of a ring, once that is free: each lane its box, which find_box has found.
  template <class Tile>
  __device__ void load(const TensorMap &map, uint32_t ring, uint64_t *full, uint64_t *empty,
                       PipelineState<B::stages> *at, const WorkTile &w, int tile, int32_t box) {
    const uint32_t arrived = shared_address(full + at->stage);
    const uint32_t to = free_stage<Tile>(ring, empty, *at);
    if (is_leader()) mbarrier_arrive_expect_tx(arrived, Tile::bytes);
    __syncwarp();
    if (has_box()) {
      const int row = threadIdx.x * maps_.rows_of_keys;
      int32_t token = w.sequence.k_first + tile * B::keys + row;
      token -= page_number(p_, token) * p_.page_size;
      load_rows<Tile>(to, row, map, arrived, {token, w.kv_head, box});
    }
    at->advance();
  }

  const Params &p_;
  const TensorMaps &maps_;
  const SharedMemory<B> &shared_;
  State<B> &state_;
  uint32_t items_ = 0;  // sent, and second_round: registers are few
  PipelineState<B::stages> keys_, values_;
};

}  // namespace fa::kernels::wgmma
