// Copies by the tensor memory accelerator: boxes of a tensor, by its tensor map, as panels of a SharedTile.
#pragma once

#include "common/mbarrier.cuh"
#include "common/shared_tile.cuh"
#include "common/tensor_maps.h"
#include "common/unroll.cuh"

namespace fa::kernels {

/// Begins to copy a box; zeros where it is outside the tensor. The mbarrier's phase gets its bytes.
__device__ inline void cp_async_bulk_tensor_4d(uint32_t to, const TensorMap &map, uint32_t barrier, int32_t column,
                                               int32_t row, int32_t head, int32_t batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

/// Where a tile's first row is in its tensor.
struct TensorRow {
  int32_t row, head, batch;
};

/// Begins to copy a tile by one thread, a box a panel; SWIZZLE_128B is how the tile lies.
template <class Tile>
__device__ inline void load_tile(uint32_t to, const TensorMap &map, uint32_t barrier, TensorRow from) {
  static_assert(Tile::panel_columns == box_columns);
  unroll<Tile::panels>([&](int i) {
    cp_async_bulk_tensor_4d(to + i * Tile::panel_bytes, map, barrier, i * box_columns, from.row, from.head, from.batch);
  });
}

}  // namespace fa::kernels
