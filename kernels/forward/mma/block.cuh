// A block of the mma.sync kernels: its constants, its shared memory, and the key blocks that it visits, from the last
// to the first. All warps have the same role:
//
//   cp.async    K, V, K, V, ... into a ring of `stages` stages: item n + stages - 1 is on its way during item n
//   each warp   S = Q K^T, online softmax, O = O + P V of different rows; with split_keys_across_warps (few rows:
//               decode) of all rows and a part of each key block, combined at the end (cross_warp.cuh)
//   barrier     __syncthreads once an item: all copies into it have arrived, and the stage before it is free
//
// A block whose results NaN or large scores have reached runs a second time (BlockState::second_run).
#pragma once

#include <type_traits>

#include "collective/block_mask.cuh"
#include "collective/key_blocks.cuh"
#include "collective/nonfinite.cuh"
#include "common/register_tile.cuh"
#include "common/shared_tile.cuh"
#include "forward/mma/tiles.h"

namespace fa::kernels::mma {

template <int Sm, Dtype Type, int Dim, Entry E>
struct Block {
  using Element = CudaType<Type>;
  static_assert(sizeof(Element) == 2);  // SharedTile
  static constexpr Arch arch = arch_of(Sm);
  static constexpr Shape shape = mma::shape(arch, Dim, E);
  static constexpr Dtype dtype = Type;
  static constexpr bool plain = is_plain(E);                // scores need little, rows are aligned
  static constexpr bool score_mod = E == Entry::score_mod;  // plain, from pages, with a softcap and ALiBi
  static constexpr bool paged = E != Entry::plain;          // if the call's keys are
  static constexpr bool has_trees = !plain;                 // of new tokens, if the call has
  static constexpr bool split_keys_across_warps = shape.split_keys_across_warps;
  static constexpr bool splits = E == Entry::split || E == Entry::decode;
  /// Copies pass through registers.
  static constexpr bool staged = !arch.has(cp_async) && (plain || (split_keys_across_warps && Dim <= 192));
  static_assert(arch.has(cp_async) || shape.stages == 2);
  static constexpr bool scarce_registers = shape.row_blocks * Dim >= 256;  // sums take half of them
  // The compiler does not know that a thread's number has no sign. A mask is ten instructions fewer, but fifteen more
  // with 32 keys on SM 120, by ptxas's order of things.
  static constexpr bool lane_by_mask = scarce_registers && (shape.keys == 64 || arch.number < 100);
  static constexpr int dim = Dim;
  static constexpr int keys = shape.keys;
  static constexpr int stages = shape.stages;
  static constexpr int threads = 32 * shape.warps;
  static constexpr int row_blocks = shape.row_blocks;
  static constexpr int warp_rows = 16 * row_blocks;
  static constexpr int rows = mma::rows(shape);
  static constexpr int warp_keys = split_keys_across_warps ? keys / shape.warps : keys;  // of a tile
  static constexpr int shared_bytes = mma::shared_bytes(shape, dim, E);

  /// The first of a warp's rows and keys within the tile.
  __device__ static int first_row(int warp) { return split_keys_across_warps ? 0 : warp * warp_rows; }
  __device__ static int first_key(int warp) { return split_keys_across_warps ? warp * warp_keys : 0; }

  /// The query and head of a row of the sequence's head group.
  __device__ static Row row_of(const Params &p, const WorkTile &w, int row) {
    return plain ? Row{row, w.head_group} : row_at(p, w, row);
  }

  using QueryTile = SharedTile<rows, dim>;
  using KeyTile = SharedTile<keys, dim>;

  /// Sums of a warp, and a number for each of their rows.
  using Scores = AccumulatorTile<row_blocks, warp_keys / 8>;
  using Out = AccumulatorTile<row_blocks, dim / 8>;
  using Rows = typename Out::Rows;
};

/// The part of BlockState of Entry::plain and Entry::score_mod.
struct FeatureState {
  const char *keys, *values;  // of the head: row 0 of batch entry (or page) 0
  float base_2;               // log2(e) * score_scale
  float steepness;            // of a softcap: see cap_products
  float slope;                // of ALiBi, in units of raw scores
};

/// The same of the entry points that support biases and masks.
struct BlockMaskState {
  ShownBlocks<4> shown;  // tiles of keys, in calls with a mask or a bias
};

/// State in shared memory in addition to the tiles, to save registers in the loop over keys.
template <class B>
struct BlockState : std::conditional_t<B::plain, FeatureState, BlockMaskState> {
  /// Intervals of keys. Those of plain scores begin near each other, as chunks are short (Entry::plain).
  using Low = std::conditional_t<B::plain, uint16_t, int32_t>;

  int32_t high[B::rows];
  Low low[B::rows];         // beyond base
  uint8_t fixups[B::rows];  // Fixup bits, for a second pass
  int32_t base;
  bool second_run;
  WorkTile work;
  KeyBlockRange tiles;
  const char *table;  // the sequence's entries of the block table

  /// The keys that a row of the tile attends.
  __device__ Interval attended(int row) const { return {base + low[row], high[row]}; }
};

/// Which row of the tile a lane's row r is.
template <class B>
__device__ inline int row_of_tile(int thread, int r) {
  return B::first_row(thread / 32) + r * 8 + B::Out::first_row(thread % 32);
}

template <class B>
struct SharedMemory {
  uint32_t queries, ring;  // addresses
  BlockState<B> *block;

  __device__ explicit SharedMemory(char *memory)
      : queries(shared_address(memory)),
        ring(queries + B::QueryTile::bytes),
        block(reinterpret_cast<BlockState<B> *>(memory + B::QueryTile::bytes + B::stages * B::KeyTile::bytes)) {
    static_assert(B::QueryTile::bytes + B::stages * B::KeyTile::bytes + int(sizeof(BlockState<B>)) <= B::shared_bytes);
  }
};

/// Stores the keys that each row attends, and returns the tiles that hold any. Every warp looks at all rows, and stores
/// its part of them.
template <class B>
__device__ inline KeyBlockRange key_block_range(const Params &p, const WorkTile &w, Interval split,
                                                BlockState<B> *block) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Rows that follow begin no earlier; one without keys has its end at 0.
  const auto attended_by = [&](int32_t row) {
    const int32_t query = B::row_of(p, w, row).query;
    return B::has_trees ? attended_with_tree(p, w.sequence, query) : attended(p, w.sequence, query);
  };
  const int base = B::plain ? attended_by(w.first_row).low : 0;
  if (threadIdx.x == 0) block->base = base;
  KeysOfRows rows;
#pragma unroll 1
  for (int r = lane; r < B::rows; r += 32) {
    Interval keys = {0, 0};
    if (w.first_row + r < w.rows) {
      keys = p.has_key_bounds ? attended_by(w.first_row + r) : Interval{0, w.sequence.keys};
      keys = {max(keys.low, split.low), min(keys.high, split.high)};
      if (keys.empty()) keys = {0, 0};
      rows.add(keys);
    }
    if (r / B::warp_rows == warp) {
      block->low[r] = keys.empty() ? 0 : keys.low - base;
      block->high[r] = keys.high;
    }
  }
  if (B::split_keys_across_warps && !p.has_key_bounds) {  // all rows attend the same keys: the first lane has one
    rows = {split.low, split.high, split.low, split.high};
  } else {
    rows.reduce_over_warp();
  }
  if (rows.empty()) return {0, 0, 0, 0};
  return {rows.low / B::keys, (rows.high - 1) / B::keys + 1, int((uint32_t(rows.full_low) + B::keys - 1) / B::keys),
          rows.full_high / B::keys};
}

}  // namespace fa::kernels::mma
