// The combine kernel's blocks: each has some rows and 32 columns of a tile that the split kernel had, and all of their
// splits. The more splits there are, the more threads share a row, and the fewer rows a block has.
#pragma once

#include "common/images.h"

namespace fa::kernels::combine {

constexpr int threads = 256;

/// Columns of a block: eight neighbouring threads have four each.
constexpr int quads = 8, columns = 4 * quads;

/// Splits that a thread adds up at a time: as many loads under way as registers hold.
constexpr int depth = 8;

/// Splits that a block adds up at a time, at most: all threads then share a row. Further ones take further rounds.
constexpr int max_span = threads / quads * depth;

/// The splits that a block adds up at a time, and the neighbouring threads that share a row, are 8 << this.
constexpr int log2_groups(int splits) {
  return (splits > depth) + (splits > 2 * depth) + (splits > 4 * depth) + (splits > 8 * depth) + (splits > 16 * depth);
}
static_assert(depth << log2_groups(max_span + 1) == max_span);
static_assert(quads == depth, "a group of threads has as many splits as threads: each finds the weight of one");

/// Rows of a block.
constexpr int rows(int splits) {
  return threads / quads >> log2_groups(splits);
}

/// Blocks for the rows of each tile, and for their columns: the grid's second and third dimension.
constexpr int blocks_of_tile(int tile_rows, int splits) {
  return (tile_rows + rows(splits) - 1) / rows(splits);
}
constexpr int blocks_of_row(int head_dim_v) {
  return (head_dim_v + columns - 1) / columns;
}

constexpr TileConfig tile(const Arch &, int, Entry entry) {
  if (entry != Entry::combine) return {};
  return {rows(1), 0, threads, 0};
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
inline constexpr Family family = {
    tile,
    [](const Attention &) { return f32; },
    [](const Attention &) { return "it ends the calls of other families"; },
    [](Entry, const Params &) -> const char * { return nullptr; },
    false,
};
#endif

}  // namespace fa::kernels::combine
