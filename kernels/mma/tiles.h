// The tiles of the tensor-core kernels, for every SM, head dimension and entry point.
#pragma once

#include <initializer_list>

#include "common/images.h"

namespace fa::kernels::mma {

/// How a block of threads works. Queries, and a ring of tiles of keys and values in turn, are in shared memory.
struct Shape {
  int row_blocks;          // of 16 rows, that a warp has
  int warps;               // of a block
  int keys;                // of a tile
  int stages;              // tiles in the ring
  bool q_in_registers;     // rather than read from shared memory for every tile
  int blocks_an_sm = 1;    // that registers must leave room for
  bool same_rows = false;  // all warps have the same rows, and each its part of a tile's keys
};

/// Tables to measure beside each other; the build's FA_TILE_PRESET names one. Nothing but speed depends on it.
enum class Preset {
  standard,  // fastest by docs/kernel-model.md
  even,      // one block of rows a warp, twice the warps
  narrow     // tiles of 32 keys, more of them on their way
};
#ifndef FA_TILE_PRESET
#define FA_TILE_PRESET standard
#endif
constexpr Preset preset = Preset::FA_TILE_PRESET;

/// Two blocks of rows a warp halve what the tensor cores ask of shared memory. Two blocks of threads an SM: when one
/// waits at a barrier, the other works.
constexpr Shape forward_shape(int sm, int dim) {
  const bool fast = sm == 80 || sm == 87 || sm == 90 || sm == 100 || sm == 103;
  if (sm == 75) {
    if (dim <= 96) return {1, 8, 64, 2, true};
    if (dim <= 128) return {1, 8, 32, 2, true};
    return {1, 4, dim <= 192 ? 32 : 16, 2, false};
  }
  if (preset == Preset::narrow && dim <= 128) return {fast ? 2 : 1, fast ? 4 : 8, 32, 6, false, fast ? 2 : 1};
  if (preset == Preset::narrow) return {1, 8, 32, fast ? 4 : dim <= 192 ? 3 : 2, false};
  if (preset == Preset::even && dim <= 128) return {1, 8, 64, 3, dim <= 64 || !fast};
  if (fast) {
    if (dim == 64 && sm < 90) return {2, 4, 96, 3, false, 2};
    if (dim <= 64) return {2, 4, 64, 4, true, 2};
    if (dim <= 128 && sm >= 90) return {2, 4, 32, 6, false, 2};  // ptxas spills with 64 keys
    if (dim <= 128) return {2, 4, 64, 3, false, 2};
    if (dim <= 192) return {1, 8, 64, 3, false};
    return {1, 8, 64, 3, false};
  }
  if (dim <= 64) return {2, 4, 64, 4, true, 2};
  if (dim <= 128) return {2, 4, 32, dim <= 96 ? 3 : 2, false, 2};
  if (dim <= 192) return {1, 8, 32, 3, false};
  return {1, 8, 32, 2, false};
}

/// Few registers for queries and sums, so that masks, biases and strides of any kind have theirs.
constexpr Shape general_shape(int sm, int dim) {
  if (sm == 75) return {1, 4, dim <= 128 ? 64 : dim <= 192 ? 32 : 16, 2, false};
  if (dim <= 128) return {1, 4, 64, 3, false};
  return {1, 4, 32, dim <= 192 ? 4 : 3, false};
}

/// As general, with more keys on their way: the memory's rate decides.
constexpr Shape split_shape(int sm, int dim) {
  if (sm == 75) return general_shape(sm, dim);
  if (dim <= 64) return {1, 4, 64, 6, false};
  if (dim <= 128) return {1, 4, 64, 4, false};
  return {1, 4, 32, dim <= 192 ? 4 : 3, false};
}

/// The rows of a token or two would keep one warp of split's busy, which then takes longer than the memory.
constexpr Shape decode_shape(int sm, int dim) {
  if (dim > 128) return {1, 2, 32, sm == 75 ? 2 : 4, false, 1, true};
  return {1, 4, dim <= 64 ? 128 : 64, sm == 75 ? 2 : 4, false, 1, true};
}

constexpr Shape shape(int sm, int dim, Entry entry) {
  return entry == Entry::forward   ? forward_shape(sm, dim)
         : entry == Entry::general ? general_shape(sm, dim)
         : entry == Entry::split   ? split_shape(sm, dim)
                                   : decode_shape(sm, dim);
}

constexpr int rows(const Shape &s) {
  return 16 * s.row_blocks * (s.same_rows ? 1 : s.warps);
}

/// Tiles first, as they need alignment; then what is kept of each row, and of the block.
constexpr int shared_bytes(const Shape &s, int dim, Entry entry) {
  return (rows(s) + s.stages * s.keys) * dim * 2 + rows(s) * (entry == Entry::forward ? 7 : 9) + 128;
}

constexpr Tile tile(int sm, int dim, Entry entry) {
  if (entry == Entry::combine) return {};
  const Shape s = shape(sm, dim, entry);
  return {rows(s), s.keys, 32 * s.warps, shared_bytes(s, dim, entry)};
}

/// No tile asks for more shared memory than its SM gives a block, nor for more than lets as many blocks as it is meant
/// for work side by side; each costs a kilobyte more than it asks for.
constexpr bool fits_everywhere() {
  for (const int sm : {75, 80, 86, 87, 89, 90, 100, 103, 120, 121})
    for (const int dim : {32, 64, 96, 128, 192, 256})
      for (const Entry entry : {Entry::forward, Entry::general, Entry::split, Entry::decode})
        if ((tile(sm, dim, entry).shared_bytes + 1024) * shape(sm, dim, entry).blocks_an_sm > shared_limit(sm) + 1024)
          return false;
  return true;
}
static_assert(fits_everywhere());

}  // namespace fa::kernels::mma
