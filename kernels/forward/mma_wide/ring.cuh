// The ring in shared memory through which tiles of keys and values pass, some columns at a time.
#pragma once

#include "forward/mma/rows.cuh"
#include "forward/mma_wide/block.cuh"

namespace fa::kernels::mma_wide {

/// The chunks of a block's tiles, from the last tile to the first: those of the keys, then those of the values. Each is
/// prefetched stages - 1 chunks ahead. Keys that no row of the block attends are not read.
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
        current_(shared.ring + (B::stages - 1) * B::KeyTile::bytes),
        all_from_(has_block_mask(p) ? INT_MAX : INT_MIN) {
    BlockState<B> &block = *shared.block;
    tile_ = last_shown(block, block.tiles.end - 1);
    if (p.page_size != 0) pages_.begin(p, block, tile_);
#pragma unroll 1
    for (int i = 0; i < B::stages - 1; i++) prefetch(begin_ + i * B::KeyTile::bytes, block);
  }

  /// Waits for the next chunk, prefetches a later one, and returns the address.
  __device__ uint32_t next(BlockState<B> &block) {
    const uint32_t free = current_;
    current_ = current_ == begin_ + (B::stages - 1) * B::KeyTile::bytes ? begin_ : current_ + B::KeyTile::bytes;
    if (B::staged && staged_) chunks_.deliver(current_);
    cp_async_wait_group<B::stages - 2>();
    __syncthreads();  // all threads' copies have arrived, and all have left the chunk before
    prefetch(free, block);
    return current_;
  }

  /// The tile that comes next: when all chunks of one have been used, some of the next are on their way.
  __device__ int tile() const { return tile_; }

 private:
  /// The last tile up to this one that neither a mask nor a bias hides; first - 1 where none is left. By all threads.
  __device__ int last_shown(BlockState<B> &block, int tile) {
    if (tile >= all_from_) return tile;
    const int first = block.tiles.first;
    while (tile >= first) {
      if (!block.shown.covers(tile) && !find_shown(block, tile)) all_from_ = block.shown.first;
      tile = block.shown.last_shown(tile);
      if (tile >= block.shown.first) return tile;
    }
    return first - 1;
  }

  __device__ bool find_shown(BlockState<B> &block, int tile) const {
    const WorkTile &w = block.work;
    const int rows = min(B::rows, w.rows - w.first_row);
    const auto row = [&](int r) { return row_at(p_, w, w.first_row + r); };
    return block.shown.find(
        tile, {block.tiles.first, block.tiles.end},
        [&](int t) { return shows_pair(p_, w.sequence, row(rows - 1), t * B::keys); },
        [&](int t) { return hides_block<B::keys>(p_, w.sequence, row, rows, t * B::keys); });
  }

  /// Begins to copy the next chunk, as one group.
  __device__ void prefetch(uint32_t to, BlockState<B> &block) {
    staged_ = false;
    if (tile_ >= block.tiles.first) copy(to, block, chunk_ < key_chunks);
    cp_async_commit_group();
    if (++chunk_ < key_chunks + value_chunks) return;
    chunk_ = 0;
    tile_ = last_shown(block, tile_ - 1);
    if (p_.page_size != 0) pages_.template find<false>(p_, block, tile_);  // on which all chunks of a tile lie
  }

  /// The next chunk of a tile's rows, zeros behind their last column. Compiled once for keys and values.
  __device__ void copy(uint32_t to, const BlockState<B> &block, bool of_keys) {
    const int32_t layout = of_keys ? p_.k_layout : p_.v_layout, columns = of_keys ? p_.head_dim : p_.head_dim_v;
    const int thread = thread_number(), first_key = tile_ * B::keys + P::row(thread);  // of a thread
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
  mma::Pages<B> pages_;
  mma::Chunks<B> chunks_;
  int tile_, chunk_ = 0;  // to be copied next
  bool staged_ = false;
  uint32_t begin_, current_;  // current_: the stage in use
  int all_from_;              // every tile from here to the last one that was found is shown
};

}  // namespace fa::kernels::mma_wide
