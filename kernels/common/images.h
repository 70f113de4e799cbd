// What the host knows of a compiled kernel: its family's entry points, and the tile of each, from which grid, threads
// and shared memory follow. Compiled by the host's compiler and by nvcc alike.
#pragma once

#include <cstdint>

namespace fa::kernels {

/// How a block of threads is made. One function a family gives it, tiles.h in its folder:
///   constexpr Tile tile(int sm, int dim, Entry entry)    sm: 75, 80, ... without the suffix
/// It has no rows for an entry point that the family does not have: {}.
struct Tile {
  int rows;          // of queries
  int keys;          // worked on at a time; the kernel's splits are whole multiples
  int threads;       // of a block
  int shared_bytes;  // dynamic shared memory of a block
};

/// Entry points. A family has those that its tiles.h gives rows; each takes one Params. `split` serves what the others
/// are missing for.
enum class Entry {
  forward,  // "fa_forward": scores need nothing but the scale, from least_scale to most_scale; q, k, v, out have rows
            // of unit stride, 16-byte aligned addresses and strides, and head dimensions in whole 16 bytes; rows of k
            // and v are less than 2^24 bytes apart, and not paged; chunks of at most longest_chunk keys; num_splits and
            // packed_heads are 1
  general,  // "fa_forward_general": everything, num_splits is 1
  split,    // "fa_forward_split": everything, and partial results when num_splits is above 1
  decode,   // "fa_forward_decode": as split, of few rows
  combine   // "fa_combine": partial results to results
};

/// Scales that may wait for the exponential: differences of products that overflow are then differences of scores that
/// leave no weight, and the factor itself, times log2 e, stays finite.
constexpr float least_scale = 0x1p-100f, most_scale = 0x1p127f;

/// Of Entry::forward: rows of a tile then begin within 2^16 keys of each other.
constexpr int longest_chunk = 1 << 15;

constexpr const char *name_of(Entry entry) {
  return entry == Entry::forward   ? "fa_forward"
         : entry == Entry::general ? "fa_forward_general"
         : entry == Entry::split   ? "fa_forward_split"
         : entry == Entry::decode  ? "fa_forward_decode"
                                   : "fa_combine";
}

/// The dynamic shared memory that a block may take.
constexpr int shared_limit(int sm) {
  switch (sm) {
    case 75:
      return 64 << 10;
    case 80:
    case 87:
      return 163 << 10;
    case 90:
    case 100:
    case 103:
      return 227 << 10;
    default:
      return 99 << 10;  // 86, 89, 120, 121
  }
}

}  // namespace fa::kernels
