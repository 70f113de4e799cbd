// The contract between the engine and its kernels: a tile is a bag of query rows that stream over the same keys and
// values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/call.h"
#include "cpu/cache.h"

namespace fa::cpu {

/// Rows of one tile at most, over all ISAs.
constexpr int max_tile_rows = 128;

/// Keys that a kernel works on at a time. Block boundaries are multiples of it from a sequence's key 0, so that a row's
/// bits do not depend on where its tile begins.
constexpr int key_block = 128;

/// The keys and values of one sequence and head, or of some consecutive heads.
struct KeyStream {
  CacheRows k, v;
  Pages pages;
  fa_dtype dtype = FA_F32;
};

/// One query row: where it is, what it attends, where its result goes. Pointers of absent features are null.
struct Row {
  const char *q;
  char *out;
  float *lse;
  const char *bias;   // at key 0
  const char *mask;   // at key 0
  int32_t low, high;  // the keys low <= j < high that causal, window and chunk leave
  int32_t position;   // among the keys, or the nearest that is 0 or more and fits
  float beyond;       // how far the true position lies past that
  float slope;        // ALiBi
  float sink;         // -inf: none
};

/// A row's unfinished softmax over some of its keys: maximum m of its scores x, sum of exp(x - m), and values so
/// weighted.
struct Partial {
  float *max;     // [rows]
  float *sum;     // [rows]
  float *values;  // [rows][head_dim_v]
};

struct Tile {
  const Attention *attention = nullptr;
  KeyStream keys;
  int rows = 0;
  int heads = 1;  // of keys and values; consecutive rows, as many for each head
  Row row[max_tile_rows];
  int64_t q_elem = 0, out_elem = 0;  // bytes from an element of a row to the next
  int64_t bias_elem = 0, mask_elem = 0;
  fa_dtype bias_dtype = FA_F32;
  bool alibi = false;
  bool finite_values_only = false;  // take values that are NaN or Inf for 0
};

/// A way to attend a tile, written once over all ISAs: a file of kernel/, which ends in its Scheme.
struct Scheme {
  int tile_rows;    // of one head at most, and at most the last scheme's
  bool many_tiles;  // false: serves a head whose rows one tile has
  bool many_heads;  // a tile may have the rows of several consecutive key/value heads
  bool any_stride;  // false: elements of a key's row and of a value's stand side by side

  /// Whether it serves an attention, as far as that alone decides.
  bool (*serves)(const Attention &attention);

  /// Bytes of scratch, 64-byte aligned, that a tile of this many rows needs.
  size_t (*scratch)(const Attention &attention, int rows);

  /// Attends keys [begin, end) for all rows; leaves the rows' unfinished softmax in `partial`.
  void (*attend)(const Tile &tile, int64_t begin, int64_t end, const Partial &partial, void *scratch);

  /// The same for keys [0, keys) to the end: stores out and lse. False when it did not serve: an element of out is not
  /// finite, which may be a masked value's doing, or has no unit stride. What it has stored is then to be done again.
  /// nullptr where a scheme has none.
  bool (*attend_whole)(const Tile &tile, int64_t keys, void *scratch);
};

struct BackwardScheme;  // backward/scheme.h

/// What one ISA offers.
struct Kernels {
  const Scheme *schemes;  // best first; the last serves everything, and heeds Tile::finite_values_only
  int scheme_count;

  /// Folds `next` (later keys) into `total`, row by row.
  void (*merge)(const Tile &tile, const Partial &total, const Partial &next);

  /// Adds the sinks, divides, and stores out and lse.
  void (*finish)(const Tile &tile, const Partial &partial);

  /// Computes gradients.
  const BackwardScheme *backward;

  const Scheme &general() const { return schemes[scheme_count - 1]; }
};

}  // namespace fa::cpu
