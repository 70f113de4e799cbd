// Rows of keys and values from global to shared memory: a block's tiles, one after another towards key 0.
#pragma once

#include "mma/load.cuh"

namespace fa::kernels::mma {

/// A value that the compiler is to keep in its register rather than to compute again where it is used.
__device__ inline int keep_in_register(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

/// Where SM 75, which has no asynchronous copies, keeps a tile between its loads and its use.
template <class B>
struct Chunks {
  using P = CopyPattern<B::threads, typename B::KeyTile>;
  uint4 chunk[B::staged ? P::passes * P::chunks : 1];

  __device__ void deliver(uint32_t to) {
    unroll<P::passes>([&](int i) {
      int n = i * P::chunks;
      P::template for_each_chunk<true>(to, i, [&](uint32_t at, int) { st_shared_v4_b32(at, chunk[n++]); });
    });
  }
};

/// Copies a thread's chunks of an aligned row, which is pass i's, or zeros where it is not to be read or they are past
/// `columns`. Staged: into `chunks`, for deliver.
template <class B>
__device__ inline void copy_row(uint32_t to, int i, const char *row, bool read, int columns, Chunks<B> &chunks,
                                unsigned thread = threadIdx.x) {
  using P = CopyPattern<B::threads, typename B::KeyTile>;
  int n = i * P::chunks;
  const auto copy = [&](uint32_t at, int column) {
    const bool there = read && column < columns;
    if constexpr (B::staged) {
      chunks.chunk[n++] = there ? __ldg(reinterpret_cast<const uint4 *>(row + column * 2)) : uint4{};
    } else {
      cp_async_16(at, row + column * 2, there);
    }
  };
  P::template for_each_chunk<true>(to, i, copy, thread);
}

/// The thread's number, where registers are scarce read anew each time: see mov_tid_x.
template <class B>
__device__ inline unsigned thread_number() {
  return B::scarce_registers ? mov_tid_x() : threadIdx.x;
}

/// Of rows that follow one another in memory, nothing is looked up.
struct NoPages {};

/// The pages that this thread's rows of the next tile are on, keys and values alike. Rows that are not paged are on one
/// page, which is their batch entry.
template <class B>
struct Pages {
  using P = CopyPattern<B::threads, typename B::KeyTile>;
  uint32_t page[P::passes] = {};

  /// The token that is a row of a tile, of pass i.
  __device__ static int32_t token(const BlockState<B> &block, int tile, int i, unsigned thread) {
    return block.work.sequence.k_first + tile * B::keys + P::row(thread) + i * P::step;
  }

  /// Asks for the pages of a tile if it exists, Whole or up to the sequence's end: half a turn before its keys are
  /// copied. No other entry of the table is read.
  template <bool Whole>
  __device__ void find(const Params &p, const BlockState<B> &block, int tile) {
    if (tile < block.tiles.first) return;
    const unsigned thread = thread_number<B>();
    unroll<P::passes>([&](int i) {
      const int32_t at = token(block, tile, i, thread);
      if (!Whole && at >= block.work.sequence.k_first + block.work.sequence.keys) return;
      const char *entry = block.table + uint32_t(page_number(p, at)) * uint64_t(p.block_table.stride[1]);
      page[i] = p.page_size == 0 ? block.work.sequence.k_batch : __ldg(reinterpret_cast<const int32_t *>(entry));
    });
  }
};

/// Copies tiles of aligned rows that lie evenly apart.
template <class B>
class EvenRows {
  using P = CopyPattern<B::threads, typename B::KeyTile>;

 public:
  /// True when what copy loads is in its chunks.
  __device__ bool staged() const { return B::staged; }

  __device__ EvenRows(const Params &p, const View &view, int columns, const Work &w, int tile)
      : view_(view),
        columns_(keep_in_register(columns - P::column())),
        stride_(keep_in_register(int(-P::step * view.stride[1]))) {
    const int key = tile * B::keys + (P::passes - 1) * P::step + P::row();
    from_ = view.data + w.sequence.k_batch * view.stride[0] + (int64_t(w.sequence.k_first) + key) * view.stride[1] +
            w.kv_head * view.stride[2] + P::column() * 2;
  }

  /// Copies the next tile if it exists: its first `keys` keys, and zeros for the others.
  template <bool Masked, class Pages>
  __device__ void copy(uint32_t to, const BlockState<B> &, int tile, bool exists, int keys, const Pages &,
                       Chunks<B> &chunks) {
#pragma unroll
    for (int i = P::passes - 1; i >= 0; i--, from_ += int64_t(stride())) {
      const bool read = exists && (!Masked || P::row() + i * P::step < keys);
      copy_row(to, i, from_, read, columns_, chunks);
    }
  }

 private:
  /// Bytes from one pass to the one before it.
  __device__ int stride() const {
    return B::scarce_registers ? -P::step * int(view_.stride[1]) : stride_;
  }

  const View &view_;
  const char *from_;  // the last row of the next tile
  int columns_;       // from this thread's chunk to the row's end
  int stride_;        // where there is a register for it
};

/// Copies tiles of aligned rows by the pages that they are on.
template <class B>
class PagedRows {
  using P = CopyPattern<B::threads, typename B::KeyTile>;

 public:
  __device__ bool staged() const { return B::staged; }

  __device__ PagedRows(const Params &p, const View &view, int columns, const Work &, int)
      : p_(p), view_(view), columns_(columns) {}

  /// As EvenRows::copy, tile by tile in any order.
  template <bool Masked>
  __device__ void copy(uint32_t to, const BlockState<B> &block, int tile, bool exists, int keys, const Pages<B> &pages,
                       Chunks<B> &chunks) {
    const unsigned thread = thread_number<B>();
    const char *const head = view_.data + block.work.kv_head * view_.stride[2] + P::column(thread) * 2;
    const char *from[P::passes];
    unroll<P::passes>([&](int i) {
      const int32_t token = Pages<B>::token(block, tile, i, thread),
                    row = token - page_number(p_, token) * p_.page_size;
      from[i] = head + pages.page[i] * uint64_t(view_.stride[0]) + row * int64_t(int32_t(view_.stride[1]));
    });
    unroll<P::passes>([&](int i) {
      const bool read = exists && (!Masked || P::row(thread) + i * P::step < keys);
      copy_row(to, i, from[i], read, columns_ - P::column(thread), chunks, thread);
    });
  }

 private:
  const Params &p_;
  const View &view_;
  int columns_;
};

/// Copies tiles of any rows: unaligned, of any stride. Where they are aligned, and lie evenly or on pages, with a
/// fraction of the instructions.
template <class B>
class AnyRows {
 public:
  __device__ AnyRows(const Params &p, const View &view, int columns, const Work &w, int tile)
      : p_(p),
        view_(view),
        even_rows_(p, view, columns, w, tile),
        paged_rows_(p, view, columns, w, tile),
        columns_(columns),
        aligned_(has_aligned_rows(view)) {
    simple_ = aligned_ && columns % 8 == 0 && is_near(view);
  }

  __device__ bool staged() const { return B::staged && simple_; }

  template <bool>
  __device__ void copy(uint32_t to, const BlockState<B> &block, int tile, bool exists, int keys, const Pages<B> &pages,
                       Chunks<B> &chunks) {
    if (simple_ && p_.page_size == 0)
      return even_rows_.template copy<true>(to, block, tile, exists, keys, pages, chunks);
    if (simple_) return paged_rows_.template copy<true>(to, block, tile, exists, keys, pages, chunks);
    if (!exists) return;
#pragma unroll 1
    for (int i = 0; i < P::passes; i++) {
      const int key = i * P::step + P::row();
      const bool read = key < keys;
      const char *row = key_row(p_, view_, block.work.sequence, tile * B::keys + (read ? key : 0), block.work.kv_head);
      P::template for_each_chunk<false>(to, i, [&](uint32_t at, int column) {
        copy_columns(at, row, P::column() + column, columns_, view_.stride[3], aligned_, read);
      });
    }
  }

 private:
  using P = CopyPattern<B::threads, typename B::KeyTile>;
  const Params &p_;
  const View &view_;
  EvenRows<B> even_rows_;
  PagedRows<B> paged_rows_;
  int columns_;
  bool aligned_, simple_;
};

}  // namespace fa::kernels::mma
