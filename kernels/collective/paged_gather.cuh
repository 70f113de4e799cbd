// Keys and values from pages of any size, which TMA's boxes do not reach: row by row, by the warp that otherwise copies
// boxes. A tile's copies are a group of cp.async; the consumers learn of a tile once the next one's are under way.
#pragma once

#include "collective/work_items.cuh"
#include "common/mbarrier.cuh"
#include "common/shared_tile.cuh"

namespace fa::kernels {

template <class B>
class Gather {
  static constexpr int row_lanes = B::KeyTile::row_chunks;  // that copy a row, a chunk of each panel
  static_assert(row_lanes == B::ValueTile::row_chunks);
  static constexpr int pass_rows = 32 / row_lanes;
  static_assert(B::keys % pass_rows == 0);

 public:
  /// The pages of a lane's rows of a tile: every 32nd one.
  static constexpr int rows_a_lane = (B::keys + 31) / 32;
  struct Pages {
    int32_t page[rows_a_lane];
  };

  /// Entries of the table that no key is on are not read.
  __device__ static Pages find(const Params &p, const WorkTile &w, int tile) {
    Pages found;
    unroll<rows_a_lane>([&](int i) {
      const int32_t key = tile * B::keys + 32 * i + int(threadIdx.x % 32);
      const bool exists = key < w.sequence.keys;
      found.page[i] = exists ? page_of(p, w.sequence, page_number(p, w.sequence.k_first + key)) : 0;
    });
    return found;
  }

  /// Begins to copy a tile: zeros where there is no key, and behind a row's last column.
  template <class Tile>
  __device__ static void copy(const Params &p, const View &view, RowSteps steps, int32_t columns, const WorkTile &w,
                              int tile, const Pages &pages, uint32_t to) {
    const int lane = threadIdx.x % 32, column = lane % row_lanes * 8;
    const int32_t first = tile * B::keys;
    const char *const base = view.data + w.kv_head * view.stride[2] + column * 2;
    unroll<rows_a_lane>([&](int i) {
      const int32_t token = w.sequence.k_first + first + 32 * i + lane;
      const int32_t row_of_page = token - page_number(p, token) * p.page_size;
      const int32_t mine =
          first + 32 * i + lane < w.sequence.keys ? pages.page[i] * steps.entry + row_of_page * steps.row : 0;
#pragma unroll 1
      for (int r = 32 * i; r < min(32 * i + 32, B::keys); r += pass_rows) {
        const int row = r + lane / row_lanes;
        const char *const from = base + int64_t{__shfl_sync(~0u, mine, row % 32)} * p.stride_unit;
        const uint32_t at = to + Tile::offset(row, lane % row_lanes);
        unroll<Tile::panels>([&](int panel) {
          cp_async_16(at + panel * Tile::panel_bytes, from + panel * Tile::row_bytes,
                      first + row < w.sequence.keys && panel * Tile::panel_columns + column < columns);
        });
      }
    });
    cp_async_commit_group();
  }

  /// The consumers may learn of a tile, whose barrier this is, once the copies of the next one are begun.
  __device__ void signal_later(uint32_t barrier) {
    if (pending_ != 0) signal<1>();
    pending_ = barrier;
  }

  /// No other tile follows soon.
  __device__ void signal_now() {
    if (pending_ != 0) signal<0>();
    pending_ = 0;
  }

 private:
  /// Products read through the asynchronous proxy, and cp.async writes through the generic one: a fence between.
  template <int Groups>
  __device__ void signal() {
    cp_async_wait_group<Groups>();
    fence_proxy_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(pending_);
  }

  uint32_t pending_ = 0;
};

}  // namespace fa::kernels
