// The ring in shared memory through which tiles of keys and values pass.
#pragma once

#include <type_traits>

#include "forward/mma/shown_tiles.cuh"

namespace fa::kernels::mma {

/// Keys and values of a block's tiles, as items K, V, K, V, ... of a ring of `stages` stages. Each item is prefetched
/// stages - 1 items ahead.
template <class B>
class Ring {
 public:
  /// Begins to copy the tiles of a work tile; also() issues the copies that arrive together with the first keys.
  template <class F>
  __device__ Ring(const Params &p, const SharedMemory<B> &shared, const WorkTile &w, const KeyBlockRange &tiles, F also)
      : p_(p),
        keys_(p, p.k, p.k_layout, p.head_dim, w, tiles.end - 1),
        values_(p, p.v, p.v_layout, p.head_dim_v, w, tiles.end - 1),
        begin_(shared.ring),
        current_(shared.ring + (B::stages - 1) * B::KeyTile::bytes) {
    tiles_.begin(p, *shared.block, tiles);
    if constexpr (B::paged)
      if (has_pages()) pages_.begin(p, *shared.block, tiles_.first(tiles));
    unroll<B::stages - 1>([&](int item) {
      prefetch<true>(item, begin_ + item * B::KeyTile::bytes, tiles_.first(tiles), *shared.block, w.sequence.keys,
                     tiles.first, [&] {
                       if (item == 0) also();
                     });
    });
  }

  /// Waits for the next item, which is tile `tile`'s keys or values, prefetches a later one, and returns the address.
  /// Not masked: all of the later one's keys exist.
  template <bool Masked>
  __device__ uint32_t next_keys(int tile, BlockState<B> &block) {
    return next<Masked>(B::stages - 1, tile, block);
  }
  template <bool Masked>
  __device__ uint32_t next_values(int tile, BlockState<B> &block) {
    return next<Masked>(B::stages, tile, block);
  }

  /// The first tile, and the one after a tile.
  __device__ int tile(const KeyBlockRange &tiles) const { return tiles_.first(tiles); }
  __device__ int after(int tile) { return tiles_.advance(tile); }

 private:
  template <bool Masked>
  __device__ uint32_t next(int ahead, int tile, BlockState<B> &block) {
    const uint32_t free = current_;
    current_ = current_ == begin_ + (B::stages - 1) * B::KeyTile::bytes ? begin_ : current_ + B::KeyTile::bytes;
    if constexpr (B::staged)
      if (ahead == B::stages ? values_.staged() : keys_.staged()) chunks_.deliver(current_);
    cp_async_wait_group<B::stages - 2>();
    __syncthreads();  // all threads' copies have arrived, and all have left the item before
    prefetch<Masked>(ahead, free, tile, block, block.work.sequence.keys, block.tiles.first, [] {});
    return current_;
  }

  /// Begins to copy the item that comes `ahead` items after tile `tile`'s keys, and also()'s copies, as one group. Of
  /// the sequence's keys, whose first tile is `first`.
  template <bool Masked, class F>
  __device__ void prefetch(int ahead, uint32_t to, int tile, BlockState<B> &block, int of_sequence, int first, F also) {
    tile = tiles_.at(tile, ahead / 2);
    const int keys = Masked ? of_sequence - tile * B::keys : B::keys;
    auto &rows = ahead % 2 == 0 ? keys_ : values_;
    rows.template copy<Masked>(to, block, tile, tile >= first, keys, pages_, chunks_);
    also();
    cp_async_commit_group();
    if (ahead % 2 == 0) return;
    tiles_.find(p_, block, first, ahead / 2 + 1);
    // Values follow upon the keys of the same tile, and lie on the same pages. All tiles but the last are whole.
    if constexpr (B::paged)
      if (has_pages()) pages_.template find<true>(p_, block, tiles_.before(tile, ahead / 2));
  }

  __device__ bool has_pages() const { return B::plain || p_.page_size != 0; }

  using Rows = std::conditional_t<!B::plain, GenericLoader<B>,
                                  std::conditional_t<B::paged, PagedLoader<B>, ContiguousLoader<B>>>;

  const Params &p_;
  ShownTiles<B> tiles_;
  std::conditional_t<B::paged, Pages<B>, NoPages> pages_;
  Rows keys_, values_;
  Chunks<B> chunks_;
  uint32_t begin_, current_;  // current_: the stage in use
};

}  // namespace fa::kernels::mma
