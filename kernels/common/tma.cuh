// Copies by the tensor memory accelerator: boxes of a tensor, by its tensor map, as panels of a SharedTile.
#pragma once

#include "common/mbarrier.cuh"
#include "common/shared_tile.cuh"
#include "common/tensor_maps.h"
#include "common/unroll.cuh"

namespace fa::kernels {

/// Begins to copy a box; zeros where it is outside the tensor. The mbarrier's phase gets its bytes.
__device__ inline void cp_async_bulk_tensor_4d(uint32_t to, const TensorMap &map, uint32_t barrier, int32_t x0,
                                               int32_t x1, int32_t x2, int32_t x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}

/// Begins to copy whole chunks of 16 bytes. The mbarrier's phase gets them.
__device__ inline void cp_async_bulk(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// Begins to copy a box of a tensor from shared memory; nothing is written outside the tensor. Part of this thread's
/// next bulk group.
__device__ inline void cp_async_bulk_tensor_4d(const TensorMap &map, uint32_t from, int32_t x0, int32_t x1, int32_t x2,
                                               int32_t x3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
               : "memory");
}

/// Begins to add f32 numbers, whole chunks of 16 bytes of them, to those in global memory. Part of this thread's next
/// bulk group.
__device__ inline void cp_reduce_async_bulk_add_f32(float *to, uint32_t from, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}

/// Ends a bulk group of this thread's.
__device__ inline void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until this thread's bulk groups have read their sources, which may then be overwritten.
__device__ inline void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/// Waits until this thread's bulk groups have written their copies.
__device__ inline void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/// Orders this thread's accesses to global memory and its copies from and to it.
__device__ inline void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Where a box's first row is in its tensor: its place in the map's dimensions but for the elements.
using TensorRow = int32_t[3];

/// Begins to copy rows of a tile, from row `first` on, by one thread, a box a panel; SWIZZLE_128B, or _64B where panels
/// have 32 columns, is how the tile lies.
template <class Tile>
__device__ inline void load_rows(uint32_t tile, int first, const TensorMap &map, uint32_t barrier,
                                 const TensorRow &from) {
  const uint32_t to = tile + first * Tile::row_bytes;
  unroll<Tile::panels>([&](int i) {
    cp_async_bulk_tensor_4d(to + i * Tile::panel_bytes, map, barrier, i * Tile::panel_columns, from[0], from[1],
                            from[2]);
  });
}

/// The other direction: begins to copy a whole tile to its rows of a tensor, by one thread, as a separate bulk group.
template <class Tile>
__device__ inline void store_rows(const TensorMap &map, uint32_t tile, const TensorRow &to) {
  unroll<Tile::panels>([&](int i) {
    cp_async_bulk_tensor_4d(map, tile + i * Tile::panel_bytes, i * Tile::panel_columns, to[0], to[1], to[2]);
  });
  cp_async_bulk_commit_group();
}

}  // namespace fa::kernels
