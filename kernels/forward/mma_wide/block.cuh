// A block of the mma.sync kernels for wide heads: its constants, its shared memory. A row of O has too many columns for
// a warp's registers, so four warps share the rows of a group:
//
//   S = Q K^T    each warp has 16 keys of a tile, for all columns, which pass through the ring in chunks
//   m            of all four, exchanged through shared memory; each warp knows it
//   P            of all four, as 16-bit weights in shared memory
//   O = O + P V  each warp has a quarter of the columns of every chunk, for all keys of the tile
//
//   cp.async    K chunk 0, 1, ..., V chunk 0, 1, ... of a tile into a ring of `stages` stages
//   barrier     __syncthreads once a chunk: all copies into it have arrived, and the stage before it is free; and once
//   a
//               tile, for the maxima
//
// A block whose results NaN has reached runs a second time (BlockState::second_run). Loaders of rows, masks and score
// modifications are those of forward/mma, whose general entry points have the same state.
#pragma once

#include "common/register_tile.cuh"
#include "common/shared_tile.cuh"
#include "forward/mma/block.cuh"
#include "forward/mma_wide/tiles.h"

namespace fa::kernels::mma_wide {

/// The thread's number, read again at each use, and known to have no sign, which divisions need not look at.
__device__ inline int thread_number() {
  return mov_tid_x() & 0x3ff;
}

template <int Sm, Dtype Type, int Dim, Entry E>
struct Block {
  using Element = CudaType<Type>;
  static_assert(sizeof(Element) == 2);  // SharedTile
  static constexpr Arch arch = arch_of(Sm);
  static constexpr Shape shape = mma_wide::shape(arch, Dim, E);
  static constexpr Dtype dtype = Type;

  // Members that the headers of forward/mma use.
  static constexpr bool plain = false, score_mod = false, paged = true, has_trees = true,
                        split_keys_across_warps = false;
  static constexpr bool staged = !arch.has(cp_async);  // copies pass through registers
  static constexpr int dim = Dim;
  static constexpr int keys = mma_wide::keys;
  static constexpr int threads = mma_wide::threads(shape);
  static constexpr int row_blocks = shape.row_blocks;
  static constexpr int warp_rows = 16 * row_blocks;
  static constexpr int rows = mma_wide::rows(shape);

  static constexpr int warp_keys = keys / warps_of_rows;
  static constexpr int chunk = shape.chunk;
  static constexpr int stages = shape.stages;
  static constexpr int warp_columns = chunk / warps_of_rows;  // of a chunk of values
  static constexpr int chunks = columns / chunk;              // of a tile of values, at most
  static constexpr int shared_bytes = mma_wide::shared_bytes(shape, dim);
  static_assert(warp_keys == 16 && warp_columns % 16 == 0);
  static_assert(!staged || stages == 2);
  static_assert(stages - 1 <= 256 / chunk + 2);  // the fewest chunks of a tile

  /// The first of a warp's rows, its rank among the warps that share them, and its keys within the tile.
  __device__ static int first_row(int warp) { return warp / warps_of_rows * warp_rows; }
  __device__ static int rank(int warp) { return warp % warps_of_rows; }
  __device__ static int first_key(int warp) { return rank(warp) * warp_keys; }

  /// The column of a warp's column of O.
  __device__ static int column_of(int warp, int column) {
    return column / warp_columns * chunk + rank(warp) * warp_columns + column % warp_columns;
  }

  /// The query and head of a row of the sequence's head group.
  __device__ static Row row_of(const Params &p, const WorkTile &w, int row) { return row_at(p, w, row); }

  using QueryTile = SharedTile<rows, dim>;
  using KeyTile = SharedTile<keys, chunk>;  // a chunk of keys or values
  using WeightTile = SharedTile<rows, keys>;

  /// Sums of a warp, and a number for each of their rows.
  using Scores = AccumulatorTile<row_blocks, warp_keys / 8>;
  using Out = AccumulatorTile<row_blocks, columns / warps_of_rows / 8>;
  using Rows = typename Out::Rows;
};

/// State in shared memory in addition to the tiles.
template <class B>
struct BlockState : mma::BlockState<B> {
  float top[warps_of_rows][B::rows];    // the largest score of each row, of each warp's keys
  float end_of_row[B::rows];            // its m, then its factor
  const char *first_key, *first_value;  // of the head: row 0 of the sequence; paged: of page 0
  Interval attended_by_any;             // row
};

template <class B>
struct SharedMemory {
  uint32_t queries, weights, ring;  // addresses
  BlockState<B> *block;

  static constexpr int tile_bytes = B::QueryTile::bytes + B::WeightTile::bytes + B::stages * B::KeyTile::bytes;
  static_assert(tile_bytes + int(sizeof(BlockState<B>)) <= B::shared_bytes);

  __device__ explicit SharedMemory(char *memory)
      : queries(shared_address(memory)),
        weights(queries + B::QueryTile::bytes),
        ring(weights + B::WeightTile::bytes),
        block(reinterpret_cast<BlockState<B> *>(memory + tile_bytes)) {}
};

/// The keys that any row of the block attends, from the keys of each. By whole warps.
template <class B>
__device__ inline Interval keys_of_block(const BlockState<B> &block) {
  KeysOfRows rows;
#pragma unroll 1
  for (int r = threadIdx.x % 32; r < B::rows; r += 32) rows.add(block.attended(r));
  rows.reduce_over_warp();
  return {rows.low, rows.high};
}

/// A bit for each 16 keys of a tile: whether any row of the block attends one of them.
template <class B>
__device__ inline uint32_t shown_keys(const BlockState<B> &block, int tile) {
  const int first = tile * B::keys;
  const int low = max(block.attended_by_any.low - first, 0), high = min(block.attended_by_any.high - first, B::keys);
  return (1u << (high + 15) / 16) - (1u << low / 16);
}

}  // namespace fa::kernels::mma_wide
