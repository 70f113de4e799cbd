// Rows of 16-bit elements from global to shared memory.
#pragma once

#include "backward/mma/block.cuh"

namespace fa::kernels::backward_mma {

/// The address of a head's row `row`, of a tensor (batch, row, head, element).
__device__ inline const char *head_rows(const View &view, int64_t batch, int64_t row, int64_t head) {
  return view.data + batch * view.stride[0] + row * view.stride[1] + head * view.stride[2];
}

/// Calls f(number, offset in the tile, address, whether it is read) for each chunk of 8 elements that this thread has
/// in copying rows `row` .. of a head to a tile. Not read: rows from `end` on, and columns from `columns` on.
template <class B, class Tile, class F>
__device__ inline void for_each_chunk(const char *head, const View &view, int columns, int row, int end, F f) {
  constexpr int lanes = Tile::row_chunks, step = B::threads / lanes, passes = (Tile::rows + step - 1) / step;
  static_assert(step * lanes == B::threads && step % 8 == 0);
  const int thread = B::thread(), r = thread / lanes, column = thread % lanes * 8;
  const auto stride = int32_t(view.stride[1]);
  const char *const first = mad_wide_s32(row + r, stride, head + column * 2);
  const uint32_t at = Tile::lane_offset(r, column / 8);
  unroll<passes>([&](int i) {
    if (passes * step != Tile::rows && r + i * step >= Tile::rows) return;
    const char *const from = i == 0 ? first : mad_wide_s32(i * step, stride, first);
    const bool exists = row + r + i * step < end;
    unroll<Tile::panels>([&](int panel) {
      f(i * Tile::panels + panel, at + panel * Tile::panel_bytes + i * step * Tile::row_bytes,
        from + panel * Tile::panel_columns * 2, exists && panel * Tile::panel_columns + column < columns);
    });
  });
}

/// Begins to copy rows to a tile that the block owns; zeros in place of elements that are not read.
template <class B>
__device__ inline void copy_owned(uint32_t to, const char *head, const View &view, int columns, int row, int end) {
  for_each_chunk<B, typename B::OwnTile>(
      head, view, columns, row, end,
      [=](int, uint32_t at, const char *from, bool read) { cp_async_16(to + at, from, read); });
}

/// Registers in which SM 75, which has no asynchronous copies, holds a streamed tile between its loads and its use.
template <class B>
struct Chunks {
  uint4 chunk[B::StreamedTile::bytes / 16 / B::threads + B::StreamedTile::panels];
};

/// The two tiles of a step, on their way.
template <class B>
class Ring {
 public:
  __device__ Ring(const BackwardParams &p, const SharedMemory<B> &shared) : p_(p), shared_(shared) {}

  /// Begins to copy rows `row` .. to a slot; rows: where row 0 of each of the two is.
  __device__ void fetch(int stage, const char *const (&rows)[2], int row, int end) {
    unroll<2>([&](int which) {
      const uint32_t to = shared_.slot(stage, which);
      for_each(rows[which], which, row, end, [&](int n, uint32_t at, const char *from, bool read) {
        if constexpr (B::staged) {
          chunks_[which].chunk[n] = read ? __ldg(reinterpret_cast<const uint4 *>(from)) : uint4{};
        } else {
          cp_async_16(to + at, from, read);
        }
      });
    });
    cp_async_commit_group();
  }

  /// Before the barrier that makes a stage visible to all warps.
  __device__ void arrive(int stage) {
    if constexpr (B::staged) {
      unroll<2>([&](int which) {
        const uint32_t to = shared_.slot(stage, which);
        for_each(nullptr, which, 0, 0,
                 [&](int n, uint32_t at, const char *, bool) { st_shared_v4_b32(to + at, chunks_[which].chunk[n]); });
      });
    }
    cp_async_wait_group<0>();
  }

 private:
  __device__ const View &view_of(int which) const { return B::pairs ? which ? p_.dout : p_.q : which ? p_.v : p_.k; }

  template <class F>
  __device__ void for_each(const char *rows, int which, int row, int end, F f) const {
    const int columns = which ? p_.head_dim_v : p_.head_dim;
    for_each_chunk<B, typename B::StreamedTile>(rows, view_of(which), columns, row, end, f);
  }

  const BackwardParams &p_;
  const SharedMemory<B> &shared_;
  std::conditional_t<B::staged, Chunks<B>, char> chunks_[2];
};

}  // namespace fa::kernels::backward_mma
