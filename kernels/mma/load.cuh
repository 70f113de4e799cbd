// Tiles from global to shared memory: queries, and a block's keys and values, one tile after another towards key 0.
#pragma once

#include "common/finish.cuh"
#include "mma/block.cuh"

namespace fa::kernels::mma {

/// True when every row of 16-bit elements can be read in chunks of 16 bytes.
__device__ inline bool has_aligned_rows(const View &view) {
  const int64_t all = reinterpret_cast<int64_t>(view.data) | view.stride[0] | view.stride[1] | view.stride[2];
  return view.stride[3] == 2 && all % 16 == 0;
}

/// Copies 8 columns of a row of 16-bit elements, zeros where they are past `columns` of the row or it is not to be
/// read. An address that nothing is read from is to be a multiple of 16, too (PTX ISA 9.7.9.25.3.1).
__device__ inline void copy_columns(uint32_t to, const char *row, int column, int columns, int64_t stride, bool aligned,
                                    bool read) {
  if (aligned && (!read || column >= columns || column + 8 <= columns)) {
    cp_async_16(to, row + column * stride, read && column < columns);
    return;
  }
  uint32_t word[4] = {};
#pragma unroll
  for (int i = 0; i < 8; i++) {
    uint32_t element = 0;
    if (read && column + i < columns) element = *reinterpret_cast<const uint16_t *>(row + (column + i) * stride);
    word[i / 2] |= element << (i % 2 * 16);
  }
  st_shared_v4_b32(to, {word[0], word[1], word[2], word[3]});
}

/// A thread's part in copying a tensor's tiles: of every `step`-th row the chunks that are `lanes` apart, one or two of
/// each panel. Four lanes a row are fewest addresses to compute; they are still whole sectors.
template <int Threads, class Tile>
struct CopyPattern {
  static constexpr int lanes = Threads / 4 <= Tile::rows ? 4 : 8;
  static constexpr int step = Threads / lanes;
  static constexpr int passes = Tile::rows / step;
  static constexpr int halves = Tile::row_chunks / lanes;
  static constexpr int chunks = Tile::panels * halves;  // of a pass
  static_assert(passes * step == Tile::rows && halves * lanes == Tile::row_chunks && step % 8 == 0);

  /// With two halves, eight neighbouring lanes have rows r and r + 4, whose chunks lie in different banks.
  __device__ static int row() {
    const int r = threadIdx.x / lanes;
    return halves == 1 ? r : r / 8 * 8 + r / 2 % 4 + r % 2 * 4;
  }
  __device__ static int column() { return threadIdx.x % lanes * 8; }

  /// Calls f(address, columns further) for each chunk of pass i over the tile at `to`.
  template <bool Unrolled, class F>
  __device__ static void for_each_chunk(uint32_t to, int i, F f) {
    const uint32_t at = to + Tile::offset(row(), threadIdx.x % lanes);
#pragma unroll(Unrolled ? Tile::panels : 1)
    for (int panel = 0; panel < Tile::panels; panel++)
#pragma unroll(Unrolled ? halves : 1)
      for (int half = 0; half < halves; half++)
        f((at ^ half * 64) + panel * Tile::panel_bytes + i * step * Tile::row_bytes,
          panel * Tile::panel_columns + half * 32);
  }
};

/// The tile of queries; zeros behind the last row.
template <class B>
__device__ inline void load_queries(const Params &p, const Work &w, uint32_t tile) {
  const bool aligned = B::plain || has_aligned_rows(p.q);
  if constexpr (B::warps_split_keys) {  // few rows: a chunk a thread
    constexpr int chunks = B::dim / 8;
#pragma unroll 1
    for (int i = threadIdx.x; i < B::rows * chunks; i += B::threads) {
      const int r = w.first_row + i / chunks;
      const bool read = r < w.rows;
      const char *from = q_row(p, w.sequence, B::row_of(p, w, read ? r : w.first_row));
      copy_columns(tile + B::QueryTile::offset(i / chunks, i % chunks), from, i % chunks * 8, p.head_dim, p.q.stride[3],
                   aligned, read);
    }
  } else {
    using P = CopyPattern<B::threads, typename B::QueryTile>;
#pragma unroll 1
    for (int i = 0; i < P::passes; i++) {
      const int r = w.first_row + P::row() + i * P::step;
      const bool read = r < w.rows;
      const Row row = B::row_of(p, w, read ? r : w.first_row);
      const char *from = q_row(p, w.sequence, row);
      P::template for_each_chunk<B::plain>(tile, i, [&](uint32_t at, int column) {
        copy_columns(at, from, P::column() + column, p.head_dim, p.q.stride[3], aligned, read);
      });
    }
  }
}

/// A value that the compiler is to keep in its register rather than to compute again where it is used.
__device__ inline int keep_in_register(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

/// Copies tiles of aligned rows that lie evenly apart.
template <class B>
class EvenRows {
  using P = CopyPattern<B::threads, typename B::KeyTile>;

 public:
  /// Where SM 75, which has no asynchronous copies, keeps a tile between its loads and its use.
  struct Chunks {
    uint4 chunk[B::staged ? P::passes * P::chunks : 1];

    __device__ void deliver(uint32_t to) {
      unroll<P::passes>([&](int i) {
        int n = i * P::chunks;
        P::template for_each_chunk<true>(to, i, [&](uint32_t at, int) { st_shared_v4_b32(at, chunk[n++]); });
      });
    }
  };

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

  /// Copies the next tile if it exists: its first `keys` keys, and zeros for the others. Staged: into `chunks`, for
  /// deliver.
  template <bool Masked>
  __device__ void copy(uint32_t to, bool exists, int keys, const Work &, Chunks &chunks) {
#pragma unroll
    for (int i = P::passes - 1; i >= 0; i--, from_ += int64_t(stride())) {
      const char *const row = from_;
      const bool read = exists && (!Masked || P::row() + i * P::step < keys);
      int n = i * P::chunks;
      P::template for_each_chunk<true>(to, i, [&](uint32_t at, int column) {
        const bool there = read && column < columns_;
        if constexpr (B::staged) {
          chunks.chunk[n++] = there ? __ldg(reinterpret_cast<const uint4 *>(row + column * 2)) : uint4{};
        } else {
          cp_async_16(at, row + column * 2, there);
        }
      });
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

/// Copies tiles of any rows: paged, unaligned, of any stride. Where they happen to lie evenly, with a fraction of the
/// instructions.
template <class B>
class AnyRows {
 public:
  __device__ AnyRows(const Params &p, const View &view, int columns, const Work &w, int tile)
      : p_(p),
        view_(view),
        even_rows_(p, view, columns, w, tile),
        columns_(columns),
        tile_(tile),
        aligned_(has_aligned_rows(view)) {
    const int64_t stride = view.stride[1];
    even_ = aligned_ && columns % 8 == 0 && p.page_size == 0 && -longest_row < stride && stride < longest_row;
  }

  __device__ bool staged() const { return B::staged && even_; }

  template <bool>
  __device__ void copy(uint32_t to, bool exists, int keys, const Work &w, typename EvenRows<B>::Chunks &chunks) {
    if (even_) return even_rows_.template copy<true>(to, exists, keys, w, chunks);
    if (!exists) return;
#pragma unroll 1
    for (int i = 0; i < P::passes; i++) {
      const int key = i * P::step + P::row();
      const bool read = key < keys;
      const char *row = key_row(p_, view_, w.sequence, tile_ * B::keys + (read ? key : 0), w.kv_head);
      P::template for_each_chunk<false>(to, i, [&](uint32_t at, int column) {
        copy_columns(at, row, P::column() + column, columns_, view_.stride[3], aligned_, read);
      });
    }
    tile_--;
  }

 private:
  using P = CopyPattern<B::threads, typename B::KeyTile>;
  const Params &p_;
  const View &view_;
  EvenRows<B> even_rows_;
  int columns_, tile_;
  bool aligned_, even_;
};

}  // namespace fa::kernels::mma
