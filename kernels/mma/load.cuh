// Tiles from global to shared memory: queries, and a block's keys and values, one tile after another towards key 0.
#pragma once

#include "mma/block.cuh"

namespace fa::kernels::mma {

/// True when every row of 16-bit elements can be read in chunks of 16 bytes.
__device__ inline bool has_aligned_rows(const View &view) {
  const int64_t all = reinterpret_cast<int64_t>(view.data) | view.stride[0] | view.stride[1] | view.stride[2];
  return view.stride[3] == 2 && all % 16 == 0;
}

/// Copies 8 columns of a row of 16-bit elements, zeros where they are past `columns` of the row or it is not to be read.
__device__ inline void copy_columns(uint32_t to, const char *row, int column, int columns, int64_t stride, bool aligned,
                                    bool read) {
  if (!read || column >= columns || (aligned && column + 8 <= columns)) {
    copy_chunk(to, row + column * stride, read && column < columns);
    return;
  }
  uint32_t word[4] = {};
#pragma unroll
  for (int i = 0; i < 8; i++) {
    uint32_t element = 0;
    if (column + i < columns) element = *reinterpret_cast<const uint16_t *>(row + (column + i) * stride);
    word[i / 2] |= element << (i % 2 * 16);
  }
  store_chunk(to, {word[0], word[1], word[2], word[3]});
}

/// The tile of queries; zeros behind the last row.
template <class B>
__device__ inline void load_queries(const Params &p, const Work &w, uint32_t tile) {
  using Tile = typename B::QueryTile;
  constexpr int chunks = B::dim / 8;
  const bool aligned = B::plain || has_aligned_rows(p.q);
#pragma unroll 1
  for (int i = threadIdx.x; i < B::rows * chunks; i += B::threads) {
    const int r = i / chunks, chunk = i % chunks;
    const bool read = w.first_row + r < w.rows;
    const Row row = row_at(p, w, read ? w.first_row + r : w.first_row);
    const char *from = p.q.data + w.sequence.q_batch * p.q.stride[0] +
                       (w.sequence.q_first + row.query) * p.q.stride[1] + row.head * p.q.stride[2];
    copy_columns(tile + Tile::offset(r, chunk), from, chunk * 8, p.head_dim, p.q.stride[3], aligned, read);
  }
}

/// A thread's part in copying a tensor's tiles: one chunk of each panel, of every `step`-th row.
template <class B>
struct Part {
  using Tile = typename B::KeyTile;
  static constexpr int step = B::threads / Tile::row_chunks;
  static constexpr int passes = Tile::rows / step;
  static_assert(passes * step == Tile::rows && step % 8 == 0);

  __device__ static int row() { return threadIdx.x / Tile::row_chunks; }
  __device__ static int column() { return threadIdx.x % Tile::row_chunks * 8; }
  /// Its place in the tile; pass i and panel j are constants away.
  __device__ static uint32_t offset() { return Tile::offset(row(), threadIdx.x % Tile::row_chunks); }
  __device__ static uint32_t offset(int i, int j) { return j * Tile::panel_bytes + i * step * Tile::row_bytes; }
};

/// Copies tiles of aligned rows that lie evenly apart.
template <class B>
class EvenRows {
 public:
  /// `high`: keys from there on are none.
  __device__ EvenRows(const Params &p, const View &view, int columns, const Work &w, int tile)
      : columns_(columns - P::column()), stride_(P::step * view.stride[1]) {
    const int key = tile * B::keys + (P::passes - 1) * P::step + P::row();
    from_ = view.data + w.sequence.k_batch * view.stride[0] + (w.sequence.k_first + key) * view.stride[1] +
            w.kv_head * view.stride[2] + P::column() * 2;
  }

  /// The next tile, whose keys from `keys` on are none.
  template <bool Bounded>
  __device__ void copy(uint32_t to, int keys) {
    to += P::offset();
#pragma unroll
    for (int i = P::passes - 1; i >= 0; i--) {
      const bool read = !Bounded || P::row() + i * P::step < keys;
#pragma unroll
      for (int j = 0; j < P::Tile::panels; j++)
        copy_chunk(to + P::offset(i, j), from_ + j * P::Tile::row_bytes,
                   read && j * P::Tile::panel_columns < columns_);
      from_ -= stride_;
    }
  }

 private:
  using P = Part<B>;
  const char *from_;  // the last row of the next tile
  int columns_;       // from this thread's chunk to the row's end
  int64_t stride_;    // between passes
};

/// Copies tiles of any rows: paged, unaligned, of any stride.
template <class B>
class AnyRows {
 public:
  __device__ AnyRows(const Params &p, const View &view, int columns, const Work &w, int tile)
      : p_(p), view_(view), columns_(columns), tile_(tile), aligned_(has_aligned_rows(view)) {}

  template <bool>
  __device__ void copy(uint32_t to, int keys, const Work &w) {
    to += P::offset();
#pragma unroll 1
    for (int i = 0; i < P::passes; i++) {
      const int key = i * P::step + P::row();
      const bool read = key < keys;
      const char *row = key_row(p_, view_, w.sequence, tile_ * B::keys + (read ? key : 0), w.kv_head);
#pragma unroll 1
      for (int j = 0; j < P::Tile::panels; j++)
        copy_columns(to + P::offset(i, j), row, j * P::Tile::panel_columns + P::column(), columns_, view_.stride[3],
                     aligned_, read);
    }
    tile_--;
  }

 private:
  using P = Part<B>;
  const Params &p_;
  const View &view_;
  int columns_, tile_;
  bool aligned_;
};

}  // namespace fa::kernels::mma
