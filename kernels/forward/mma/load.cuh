// Tiles from global to shared memory: how threads share a copy out, and the queries.
#pragma once

#include "collective/epilogue.cuh"
#include "forward/mma/block.cuh"

namespace fa::kernels::mma {

/// True when every row of 16-bit elements can be written in chunks of 16 bytes.
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
  __device__ static int row(unsigned thread = threadIdx.x) {
    const int r = thread / lanes;
    return halves == 1 ? r : r / 8 * 8 + r / 2 % 4 + r % 2 * 4;
  }
  __device__ static int column(unsigned thread = threadIdx.x) { return thread % lanes * 8; }

  /// Where this thread's first chunk of a tile lies.
  __device__ static uint32_t offset(unsigned thread = threadIdx.x) { return Tile::offset(row(thread), thread % lanes); }

  /// Calls f(address, columns further) for each chunk of pass i over a tile of which `at` is this thread's first.
  template <bool Unrolled, class F>
  __device__ static void for_each_chunk(uint32_t at, int i, F f) {
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
__device__ inline void load_queries(const Params &p, const WorkTile &w, uint32_t tile) {
  const bool aligned = B::plain || p.q_layout != unaligned_rows;
  if constexpr (B::split_keys_across_warps) {  // few rows: a chunk a thread
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
      P::template for_each_chunk<B::plain>(tile + P::offset(), i, [&](uint32_t at, int column) {
        copy_columns(at, from, P::column() + column, p.head_dim, p.q.stride[3], aligned, read);
      });
    }
  }
}

}  // namespace fa::kernels::mma
