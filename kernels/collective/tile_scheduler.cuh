// The tile scheduler: assigns work tiles (rows of one sequence and head group, and a split of its keys) to blocks.
#pragma once

#include <type_traits>

#include "collective/sequence.cuh"

namespace fa::kernels {

/// A work tile; rows == 0: this block has none.
struct WorkTile {
  Sequence sequence;
  int32_t first_row;   // of the tile, in rows of the sequence's head group
  int32_t rows;        // of the sequence's head group: queries * heads_per_tile
  int32_t head_group;  // first query head: head_group * heads_per_tile
  int32_t kv_head;
  int64_t split;        // of the tile's keys
  int64_t partial_row;  // of the tile's first row, where there are partial results
};
static_assert(std::has_unique_object_representations_v<WorkTile>, "a gap between fields is read together with them");

/// A row of the tile: its query and its head.
struct Row {
  int32_t query, head;
};

__device__ inline Row row_at(const Params &p, const WorkTile &w, int32_t row) {
  const int32_t packed = p.schedule.heads_per_tile;
  const auto query = int32_t(quotient(row, p.by_heads_per_tile));
  return {query, w.head_group * packed + row - query * packed};
}

/// The keys of split i of n: split_keys each, or even shares in whole blocks of block_keys; {0, 0} where none are left.
__device__ inline Interval keys_of_split(const Params &p, const Sequence &s, int64_t split, int32_t block_keys) {
  const int32_t keys = max(s.keys, 0);
  if (p.schedule.num_splits == 1) return {0, keys};
  uint32_t share = p.schedule.split_keys;
  if (share == 0) {
    const uint32_t blocks = (uint32_t(keys) + block_keys - 1) / block_keys;
    const uint32_t of_split = quotient(blocks + p.schedule.num_splits - 1, p.by_num_splits);
    if (uint32_t(split) * of_split >= blocks) return {0, 0};
    share = of_split * block_keys;
  }
  const uint32_t low = uint32_t(split) * share;
  return low < uint32_t(keys) ? Interval{int32_t(low), int32_t(min(low + share, uint32_t(keys)))} : Interval{0, 0};
}

/// The packed sequence that has tile *tile, or -1; *tile becomes the tile's number in it. Sequences have as many tiles
/// each as the longest one, or one more than their rows fill, so that where they begin follows from cumulative[b]
/// alone. Called by whole warps.
__device__ inline int32_t sequence_of_tile(const Params &p, const int32_t *cumulative, int32_t *tile) {
  const TileSchedulerParams &s = p.schedule;
  if (s.sequence_tiles > 0) {
    const auto b = int32_t(quotient(uint32_t(*tile), p.by_sequence_tiles));
    *tile -= b * s.sequence_tiles;
    return b;
  }
  // Tiles of sequence b begin at floor(cumulative[b] * heads_per_tile / tile_rows) + b. Each round, a warp's lanes look
  // at sequences evenly apart, of which the last one that has begun is kept, with those up to the next.
  int32_t first = 0, count = p.batch;
  for (;;) {
    const int32_t apart = (count - 1) / 32 + 1, b = int32_t(threadIdx.x % 32) * apart;
    bool begins = b < count;
    if (begins) {
      const int32_t tiles = *tile - (first + b) + 1;
      begins = int64_t{cumulative[first + b]} * s.heads_per_tile < int64_t{tiles} * s.tile_rows;
    }
    const int32_t last = __popc(__ballot_sync(~0u, begins)) - 1;
    if (last < 0) return -1;
    first += last * apart;
    if (apart == 1) break;
    count = min(apart, count - last * apart);
  }
  const uint32_t rows = cumulative[first], tiles = quotient(rows, p.by_tile_rows), rest = rows - tiles * s.tile_rows;
  *tile -= int32_t(tiles * s.heads_per_tile + quotient(rest * s.heads_per_tile, p.by_tile_rows)) + first;
  return first;
}

/// The coordinates of a tile: a column (one head group of one sequence), and the tile's number in it.
struct TileCoord {
  int64_t column;
  int32_t tile;
};

/// The coordinates of tile number `index` of a call. Sections of columns follow one another, so that concurrently
/// running blocks share keys and values in L2. Under a causal mask a column's last tiles are the longest: they come
/// first, and the shortest tiles of all columns at the end (longest processing time first), so that all multiprocessors
/// end together.
__device__ inline TileCoord tile_coord(const Params &p, int64_t index) {
  const TileSchedulerParams &s = p.schedule;
  if (s.tiles == 1) return {index, 0};
  const int64_t columns = int64_t{p.cu_seqlens_q ? 1 : p.batch} * s.head_groups;
  int64_t first = 0, section = columns;
  int32_t end = s.tiles;
  if (s.l2_section < columns) {
    const int64_t early = s.tiles - s.tail_tiles;  // of each column
    if (index < columns * early) {
      const int64_t sections_before = index / (s.l2_section * early);
      first = sections_before * s.l2_section;
      section = min(s.l2_section, columns - first);
      index -= first * early;
    } else {
      index -= columns * early;
      end = s.tail_tiles;
    }
  }
  const int64_t rank = index / section;  // among the tiles of its column
  return {first + index - rank * section, end - 1 - int32_t(rank)};
}

/// The work tile of one split of this launch's tile number tile_index, heads included.
__device__ inline WorkTile get_work_tile(const Params &p, int32_t block_rows, int64_t tile_index, int64_t split) {
  const TileSchedulerParams &s = p.schedule;
  auto [column, tile] = tile_coord(p, s.first_tile + tile_index);
  int32_t b = int32_t(quotient(column, s.head_groups, p.by_head_groups));
  WorkTile w;
  w.split = split;
  w.partial_row = split * p.partial_rows + tile_index * block_rows;
  w.head_group = int32_t(column - int64_t(b) * s.head_groups);
  w.kv_head = int32_t(quotient(w.head_group, p.by_groups_of_kv_head));
  if (p.cu_seqlens_q) b = sequence_of_tile(p, p.cu_seqlens_q, &tile);
  w.first_row = w.rows = 0;
  if (b < 0) return w;
  w.sequence = sequence(p, b);
  const int32_t rows = w.sequence.queries * s.heads_per_tile;
  if (int64_t{tile} * block_rows < rows) w.first_row = tile * block_rows, w.rows = rows;
  return w;
}

/// The work tile of this block, in a grid that is not persistent.
__device__ inline WorkTile get_initial_work_tile(const Params &p, int32_t block_rows) {
  const uint32_t tile_index = quotient(blockIdx.x, p.by_num_splits);
  return get_work_tile(p, block_rows, tile_index, blockIdx.x - tile_index * p.schedule.num_splits);
}

/// The persistent loop: calls f for each work tile of this block. In a grid of clusters, the blocks of a last cluster
/// that has too few work tiles call f with rows = 0, so that they can wait for each other.
template <int Cluster = 1, class F>
__device__ inline void for_each_work_tile(const Params &p, int32_t block_rows, F &&f) {
  const int64_t splits = p.schedule.num_splits, blocks = p.schedule.blocks;
  for (int64_t index = blockIdx.x; index < (blocks + Cluster - 1) / Cluster * Cluster; index += gridDim.x) {
    WorkTile w = {};
    if (index < blocks) w = get_work_tile(p, block_rows, index / splits, index % splits);
    f(w);
  }
}

}  // namespace fa::kernels
