// The producer warp of families for warpgroups and tensor memory: hands work tiles to the other roles, and loads their
// keys and values, by TMA where boxes reach them, else row by row.
#pragma once

#include <type_traits>

#include "collective/paged_gather.cuh"
#include "common/tma.cuh"

namespace fa::kernels {

/// The state in shared memory.
template <class SharedMemory>
using StateOf = std::remove_pointer_t<decltype(SharedMemory::state)>;

/// Family: the class derived from this one, with load_queries(item) and lane(). reconverges: its warp is put together
/// again after each copy. State has q_full, q_empty, k_full, k_empty, v_full, v_empty and two items.
template <class Family, class B, class SharedMemory, bool reconverges>
class TmaProducer {
 protected:
  __device__ TmaProducer(const Params &p, const TensorMaps &maps, const SharedMemory &shared)
      : p_(p), maps_(maps), shared_(shared), state_(*shared.state) {}

  __device__ static bool is_leader() { return Family::lane() == 0; }

  __device__ void signal(WorkPass pass) {
    WorkItem &item = next_item();
    if (is_leader()) {
      item.pass = pass;
      mbarrier_arrive(shared_address(&state_.q_full));
    }
    if constexpr (reconverges) __syncwarp();
  }

  /// Hands a work tile to the other roles; after detect, once more for fixup. Registers are few here: the work tile is
  /// looked up in its item.
  __device__ void send(WorkPass pass, int32_t number, const WorkTile &given) {
    WorkItem &first = next_item();
    if (is_leader()) first.pass = pass, first.number = number, first.work = given;
    __syncwarp();
    load(first);
    if (pass == WorkPass::main) return;
    WorkItem &second = next_item();
    if (is_leader()) second = first, second.pass = WorkPass::fixup;
    __syncwarp();
    load(second);
  }

  const Params &p_;
  const TensorMaps &maps_;
  const SharedMemory &shared_;
  StateOf<SharedMemory> &state_;
  uint32_t items_ = 0;  // sent; the family may keep another bit in it

 private:
  using KeyTile = typename B::KeyTile;
  using ValueTile = typename B::ValueTile;
  using Stage = PipelineState<B::stages>;

  /// The slot of the next item, once it and the queries before it are free.
  __device__ WorkItem &next_item() {
    mbarrier_wait(shared_address(&state_.q_empty), items_ % 2 ^ 1);
    return state_.items[items_++ % 2];
  }

  /// Loads the queries, keys and values of an item.
  __device__ void load(WorkItem &item) {
    const WorkTile &w = item.work;
    const KeyBlockRange blocks = key_block_range<B::rows, B::keys>(p_, w);
    if (is_leader()) {
      item.tiles = blocks;
      static_cast<Family *>(this)->load_queries(w);
    }
    __syncwarp();
    if constexpr (B::gathers_pages)
      if (maps_.rows_of_keys == 0) return gather(w, blocks);
    copy_boxes(w, blocks);
  }

  /// Each lane looks up and copies one box of a tile; where keys are not paged, there is one box.
  __device__ bool has_box() const { return Family::lane() * maps_.rows_of_keys < B::keys; }

  /// In the order in which they are used: the next tile's keys before this one's values. Pages are requested an
  /// iteration before their keys are copied.
  __device__ void copy_boxes(const WorkTile &w, const KeyBlockRange &tiles) {
    int32_t here = 0, next = find_box(w, tiles.end - 1, tiles.first);
#pragma unroll 1
    for (int tile = tiles.end; tile >= tiles.first; tile--) {
      const int32_t after = find_box(w, tile - 2, tiles.first);
      if (tile > tiles.first)
        load<KeyTile>(maps_.k, shared_.keys, state_.k_full, state_.k_empty, &keys_, w, tile - 1, next);
      if (tile < tiles.end && !B::values_in_keys)
        load<ValueTile>(maps_.v, shared_.values, state_.v_full, state_.v_empty, &values_, w, tile, here);
      here = next, next = after;
    }
  }

  /// The same of rows on pages that boxes do not reach. Pages are on their way while a stage becomes free.
  __device__ void gather(const WorkTile &w, const KeyBlockRange &tiles) {
    using Pages = typename Gather<B>::Pages;
    Gather<B> rows;
    Pages here = {};
#pragma unroll 1
    for (int tile = tiles.end; tile >= tiles.first; tile--) {
      Pages next = {};
      if (tile > tiles.first) {
        next = Gather<B>::find(p_, w, tile - 1);
        Gather<B>::template copy<KeyTile>(p_, p_.k, p_.k_steps, p_.head_dim, w, tile - 1, next,
                                          free_stage<KeyTile>(shared_.keys, state_.k_empty, keys_));
        rows.signal_later(shared_address(state_.k_full + keys_.stage));
        keys_.advance();
      }
      if (tile < tiles.end) {
        Gather<B>::template copy<ValueTile>(p_, p_.v, p_.v_steps, p_.head_dim_v, w, tile, here,
                                            free_stage<ValueTile>(shared_.values, state_.v_empty, values_));
        rows.signal_later(shared_address(state_.v_full + values_.stage));
        values_.advance();
      }
      here = next;
    }
    rows.signal_now();
  }

  /// The next stage of a ring, once it is free.
  template <class Tile>
  __device__ uint32_t free_stage(uint32_t ring, uint64_t *empty, const Stage &at) const {
    mbarrier_wait(shared_address(empty + at.stage), at.parity ^ 1);
    return ring + at.stage * Tile::bytes;
  }

  /// Where the map has this lane's box of a tile, not before tile `first`: its page, or the batch entry. Boxes without
  /// keys are outside the tensor, where TMA finds zeros; their entries of the table are not read.
  __device__ int32_t find_box(const WorkTile &w, int tile, int first) const {
    if (p_.page_size == 0) return w.sequence.k_batch;
    if (tile < first || !has_box()) return -1;
    const int32_t token = tile * B::keys + Family::lane() * maps_.rows_of_keys;
    return token < w.sequence.keys ? page_of(p_, w.sequence, page_number(p_, token)) : -1;
  }

  /// Copies a tile into the next stage of a ring, once that is free: each lane its box, which find_box has found.
  template <class Tile>
  __device__ void load(const TensorMap &map, uint32_t ring, uint64_t *full, uint64_t *empty, Stage *at,
                       const WorkTile &w, int tile, int32_t box) {
    const uint32_t arrived = shared_address(full + at->stage);
    const uint32_t to = free_stage<Tile>(ring, empty, *at);
    if (is_leader()) mbarrier_arrive_expect_tx(arrived, Tile::bytes);
    __syncwarp();
    if (has_box()) {
      const int row = Family::lane() * maps_.rows_of_keys;
      int32_t token = w.sequence.k_first + tile * B::keys + row;
      token -= page_number(p_, token) * p_.page_size;
      load_rows<Tile>(to, row, map, arrived, {token, w.kv_head, box});
    }
    if constexpr (reconverges) __syncwarp();
    at->advance();
  }

  Stage keys_, values_;
};

}  // namespace fa::kernels
