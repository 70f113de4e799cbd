// Rows of keys and values from global to shared memory: a block's tiles, one after another towards key 0.
#pragma once

#include "forward/mma/load.cuh"

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
      P::template for_each_chunk<true>(to + P::offset(), i,
                                       [&](uint32_t at, int) { st_shared_v4_b32(at, chunk[n++]); });
    });
  }
};

/// Copies a thread's chunks of an aligned row, which is pass i's, or zeros where it is not to be read or they are past
/// `columns`. `first` is where the thread's first chunk goes. Staged: into `chunks`, for deliver.
template <class B>
__device__ inline void copy_row(uint32_t first, int i, const char *row, bool read, int columns, Chunks<B> &chunks) {
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
  P::template for_each_chunk<true>(first, i, copy);
}

/// Of rows that follow one another in memory, nothing is looked up.
struct NoPages {};

/// Where this thread's rows of the next tile are, keys and values alike. The threads that copy a row copy as many
/// others as they have passes: each looks one of them up for all. Rows that are not paged are on one page, their batch
/// entry.
template <class B>
class Pages {
  using P = CopyPattern<B::threads, typename B::KeyTile>;
  static_assert(P::passes <= P::lanes && P::step * B::KeyTile::row_bytes < 1 << 16 && B::keys <= 256);

 public:
  /// Begins at a tile, and asks for its pages.
  __device__ void begin(const Params &p, const BlockState<B> &block, int tile) {
    const int pass = B::plain && p.page_size == 0 ? 0 : threadIdx.x % P::lanes % P::passes;
    place_ = keep_in_register(P::offset() | (P::row() + pass * P::step) << 16 | P::column() << 25);
    find<false>(p, block, tile);
  }

  /// Requests the pages of a tile if it exists, Whole or up to the sequence's end: half an iteration before its keys
  /// are copied. No other entry of the table is read.
  template <bool Whole>
  __device__ void find(const Params &p, const BlockState<B> &block, int tile) {
    if (tile < block.tiles.first) return;
    const int32_t token = block.work.sequence.k_first + tile * B::keys + (place_ >> 16 & 0xff);
    if (B::plain && p.page_size == 0) {
      page_ = block.work.sequence.k_batch, row_ = token;
    } else if (Whole || token < block.work.sequence.k_first + block.work.sequence.keys) {
      const int32_t number = page_number(p, token);
      row_ = token - number * p.page_size;
      page_ = __ldg(reinterpret_cast<const int32_t *>(mad_wide_s32(number, p.table_step, block.table)));
    }
  }

  /// Calls f(pass, address) for each pass: where its row is of a tensor whose first row's is `from`.
  template <class F>
  __device__ void for_each_row(const Params &p, const RowSteps &steps, const char *from, F f) const {
    const int32_t own = page_ * steps.entry + row_ * steps.row;
    int32_t at[P::passes];
    if (!B::plain || p.page_size != 0) {
      unroll<P::passes>([&](int i) { at[i] = P::passes == 1 ? own : __shfl_sync(~0u, own, i, P::lanes); });
    } else {
      unroll<P::passes>([&](int i) { at[i] = own + i * P::step * steps.row; });
    }
    unroll<P::passes>([&](int i) { f(i, mad_wide_s32(at[i], p.stride_unit, from)); });
  }

  /// This thread's first chunk of a tile: its row and column, and where it lies.
  __device__ int row() const { return offset() / B::KeyTile::row_bytes; }
  __device__ int column() const { return uint32_t(place_) >> 25; }
  __device__ uint32_t offset() const { return place_ & 0xffff; }

 private:
  int place_;  // the chunk's offset, above it the row of a tile to look up, above that the chunk's column in bytes
  int32_t page_ = 0, row_ = 0;
};

/// Copies tiles of aligned rows that lie evenly apart.
template <class B>
class ContiguousLoader {
  using P = CopyPattern<B::threads, typename B::KeyTile>;

 public:
  /// True when copy's loads are in its chunks.
  __device__ bool staged() const { return B::staged; }

  __device__ ContiguousLoader(const Params &p, const View &view, int32_t, int columns, const WorkTile &w, int tile)
      : view_(view),
        columns_(keep_in_register(columns - P::column())),
        stride_(keep_in_register(int(-P::step * view.stride[1]))) {
    const int key = tile * B::keys + (P::passes - 1) * P::step + P::row();
    from_ = view.data + w.sequence.k_batch * view.stride[0] + (int64_t(w.sequence.k_first) + key) * view.stride[1] +
            w.kv_head * view.stride[2] + P::column() * 2;
  }

  /// Copies the next tile if it exists: its first `keys` keys, and zeros for the others.
  template <bool Masked, class Pages>
  __device__ void copy(uint32_t to, const BlockState<B> &, int, bool exists, int keys, const Pages &,
                       Chunks<B> &chunks) {
    from_ = copy_up<Masked>(from_, to, exists, keys, chunks);
  }

 protected:
  /// From the last pass's row to the first; returns where the last row of the tile before is.
  template <bool Masked>
  __device__ const char *copy_up(const char *from, uint32_t to, bool exists, int keys, Chunks<B> &chunks) const {
#pragma unroll
    for (int i = P::passes - 1; i >= 0; i--, from += int64_t(stride())) {
      const bool read = exists && (!Masked || P::row() + i * P::step < keys);
      copy_row(to + P::offset(), i, from, read, columns_, chunks);
    }
    return from;
  }

  const View &view_;
  const char *from_;  // the last row of the next tile
  int columns_;       // from this thread's chunk to the row's end

 private:
  /// Bytes from one pass to the one before it.
  __device__ int stride() const {
    return B::scarce_registers ? -P::step * int(view_.stride[1]) : stride_;
  }

  int stride_;  // where there is a register for it
};

/// Copies tiles of aligned rows by the pages that they are on, with few registers.
template <class B>
class PagedLoader {
  using P = CopyPattern<B::threads, typename B::KeyTile>;

 public:
  __device__ bool staged() const { return B::staged; }

  __device__ PagedLoader(const Params &p, const View &view, int32_t, int columns, const WorkTile &, int)
      : p_(p), of_keys_(&view == &p.k), columns_(columns) {}

  /// As ContiguousLoader::copy, the tile that was looked up last.
  template <bool Masked>
  __device__ void copy(uint32_t to, const BlockState<B> &block, int tile, bool exists, int keys, const Pages<B> &pages,
                       Chunks<B> &chunks) {
    const int columns = columns_ - pages.column();
    const char *const head = of_keys_ ? block.keys : block.values;
    pages.for_each_row(p_, of_keys_ ? p_.k_steps : p_.v_steps, head + pages.column() * 2, [&](int i, const char *from) {
      const bool read = exists && (!Masked || pages.row() + i * P::step < keys);
      copy_row(to + pages.offset(), i, from, read, columns, chunks);
    });
  }

 private:
  const Params &p_;
  bool of_keys_;  // known when this is compiled
  int columns_;
};

/// Copies tiles of any rows: unaligned, of any stride, in any order. Where they are aligned, and lie evenly or on
/// pages, with a fraction of the instructions.
template <class B>
class GenericLoader : ContiguousLoader<B> {
 public:
  __device__ GenericLoader(const Params &p, const View &view, int32_t layout, int columns, const WorkTile &w, int)
      : ContiguousLoader<B>(p, view, layout, columns, w, 0),
        p_(p),
        of_keys_(&view == &p.k),
        aligned_(layout != unaligned_rows),
        simple_(layout == vectorizable_rows) {
    if (p.page_size != 0) from_ = view.data + w.kv_head * view.stride[2] + P::column() * 2;
  }

  __device__ bool staged() const { return B::staged && simple_; }

  template <bool>
  __device__ void copy(uint32_t to, const BlockState<B> &block, int tile, bool exists, int keys, const Pages<B> &pages,
                       Chunks<B> &chunks) {
    if (simple_ && p_.page_size == 0) {
      const char *const last = mad_wide_s32(tile * B::keys, int32_t(view_.stride[1]), from_);
      ContiguousLoader<B>::template copy_up<true>(last, to, exists, keys, chunks);
      return;
    }
    if (simple_) {
      return pages.for_each_row(p_, of_keys_ ? p_.k_steps : p_.v_steps, from_, [&](int i, const char *from) {
        copy_row(to + P::offset(), i, from, exists && P::row() + i * P::step < keys, columns_, chunks);
      });
    }
    if (!exists) return;
#pragma unroll 1
    for (int i = 0; i < P::passes; i++) {
      const int key = i * P::step + P::row();
      const bool read = key < keys;
      const char *row = key_row(p_, view_, block.work.sequence, tile * B::keys + (read ? key : 0), block.work.kv_head);
      P::template for_each_chunk<false>(to + P::offset(), i, [&](uint32_t at, int column) {
        copy_columns(at, row, P::column() + column, of_keys_ ? p_.head_dim : p_.head_dim_v, view_.stride[3], aligned_,
                     read);
      });
    }
  }

 private:
  using P = CopyPattern<B::threads, typename B::KeyTile>;
  using ContiguousLoader<B>::view_, ContiguousLoader<B>::from_, ContiguousLoader<B>::columns_;
  const Params &p_;
  bool of_keys_;  // known when this is compiled
  bool aligned_, simple_;
};

}  // namespace fa::kernels::mma
