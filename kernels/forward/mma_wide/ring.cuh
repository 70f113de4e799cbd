// The ring in shared memory through which tiles of keys and values pass, some columns at a time.
#pragma once

#include "forward/mma/shown_tiles.cuh"
#include "forward/mma_wide/block.cuh"

namespace fa::kernels::mma_wide {

/// The chunks of a block's tiles, from the last tile to the first: those of the keys, then those of the values. Each is
/// prefetched slots - 1 chunks ahead. Keys that no row of the block attends are not read.
template <class B>
class Ring {
  using P = mma::CopyPattern<B::threads, typename B::KeyTile>;

 public:
  const int key_chunks, value_chunks;

  /// Begins to copy.
  __device__ Ring(const Params &p, const SharedMemory<B> &shared)
      : key_chunks((p.head_dim + B::chunk - 1) / B::chunk),
        value_chunks((p.head_dim_v + B::chunk - 1) / B::chunk),
        p_(p),
        begin_(shared.ring),
        current_(shared.ring + (B::slots - 1) * B::KeyTile::bytes) {
    BlockState<B> &block = *shared.block;
    tiles_.begin(p, block, block.tiles);
    tiles_.find(p, block, block.tiles.first, 1);
    find_tile(block);
    if (p.page_size != 0) pages_.begin(p, block, tiles_.at(0, 0));
#pragma unroll 1
    for (int i = 0; i < B::slots - 1; i++) prefetch(begin_ + i * B::KeyTile::bytes, block);
  }

  /// Waits for the next chunk, prefetches a later one, and returns the address.
  __device__ uint32_t next(BlockState<B> &block) {
    const uint32_t free = current_;
    current_ = current_ == begin_ + (B::slots - 1) * B::KeyTile::bytes ? begin_ : current_ + B::KeyTile::bytes;
    if (B::staged && staged_) chunks_.deliver(current_);
    cp_async_wait_group<B::slots - 2>();
    __syncthreads();  // everyone's copies have arrived, and everyone has left the chunk before
    prefetch(free, block);
    return current_;
  }

  /// The first tile, and the one after the current.
  __device__ int tile() const {
    return tiles_.at(0, 0);
  }
  __device__ int advance(BlockState<B> &block) {
    const int tile = tiles_.advance(0);
    ahead_--;
    find_tile(block);
    return tile;
  }

  /// The 16 keys at `first` of a tile have none that any row of the block attends.
  __device__ static bool skips(const BlockState<B> &block, int first) {
    return first + 16 <= block.attended_by_any.low || first >= block.attended_by_any.high;
  }

 private:
  /// The tile of the next chunk to be copied.
  __device__ int tile_ahead() const {
    return ahead_ == 0 ? tiles_.at(0, 0) : ahead_ == 1 ? tiles_.at(0, 1) : tiles_.at(0, 2);
  }

  __device__ void find_tile(BlockState<B> &block) {
    tiles_.find(p_, block, block.tiles.first, 2);
  }

  /// Begins to copy the next chunk, as one group.
  __device__ void prefetch(uint32_t to, BlockState<B> &block) {
    const int tile = tile_ahead();
    staged_ = false;
    if (tile >= block.tiles.first) copy(to, block, tile, chunk_ < key_chunks);
    cp_async_commit_group();
    if (++chunk_ < key_chunks + value_chunks) return;
    chunk_ = 0;
    ahead_++;
    // All chunks of a tile lie on the same pages.
    if (p_.page_size != 0) pages_.template find<false>(p_, block, tile_ahead());
  }

  /// The next chunk of a tile's rows, zeros behind their last column. Compiled once for keys and values.
  __device__ void copy(uint32_t to, const BlockState<B> &block, int tile, bool of_keys) {
    const int32_t layout = of_keys ? p_.k_layout : p_.v_layout, columns = of_keys ? p_.head_dim : p_.head_dim_v;
    const int thread = mov_tid_x(), first_key = tile * B::keys + P::row(thread);  // of a thread
    const int column = (of_keys ? chunk_ : chunk_ - key_chunks) * B::chunk + P::column(thread);
    const Interval attended = block.attended_by_any;
    const auto reads = [&](int i) { return attended.holds(first_key + i * P::step); };
    to += P::offset(thread);
    staged_ = layout == vectorizable_rows;
    if (!staged_) {
      const View view = of_keys ? p_.k : p_.v;
#pragma unroll 1
      for (int i = 0; i < P::passes; i++) {
        const int key = max(min(first_key + i * P::step, attended.high - 1), attended.low);
        const char *const row = key_row(p_, view, block.work.sequence, key, block.work.kv_head);
        P::template for_each_chunk<false>(to, i, [&](uint32_t at, int further) {
          mma::copy_columns(at, row, column + further, columns, view.stride[3], layout != unaligned_rows, reads(i));
        });
      }
      return;
    }
    const char *const from = (of_keys ? block.first_key : block.first_value) + column * 2;
    const auto copy = [&](int i, const char *row) {
      mma::copy_row<B>(to, i, row, reads(i), columns - column, chunks_);
    };
    if (p_.page_size != 0) {
      pages_.for_each_row(p_, of_keys ? p_.k_steps : p_.v_steps, from, copy);
    } else {
      const auto stride = int32_t(of_keys ? p_.k.stride[1] : p_.v.stride[1]);
      unroll<P::passes>([&](int i) { copy(i, mad_wide_s32(first_key + i * P::step, stride, from)); });
    }
  }

  const Params &p_;
  mma::ShownTiles<B> tiles_;
  mma::Pages<B> pages_;
  mma::Chunks<B> chunks_;
  int chunk_ = 0, ahead_ = 0;  // to be copied next: of which tile after the current one
  bool staged_ = false;
  uint32_t begin_, current_;  // current_: the slot in use
};

}  // namespace fa::kernels::mma_wide
