// The contract between the engine and its microkernels: a query tile, rows that stream over the same keys and values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/call.h"
#include "cpu/cache.h"
#include "cpu/token_rows.h"

namespace fa::cpu {

/// Maximum rows of a query tile over all ISAs: of the forward pass, and of the backward pass.
constexpr int max_tile_rows = 1024, max_backward_rows = 128;

/// Keys of a block, and of the largest block over all ISAs. The first block begins at the sequence's first attended
/// key, rounded down to a multiple of a block, so that a row's bits do not depend on its tile.
constexpr int key_block = 128, max_key_block = 256;

/// The keys and values of one sequence and of one head, or of several consecutive heads.
struct KeyStream {
  CacheRows k, v;
  Pages pages;
  RowFactors k_factors, v_factors;
  CacheRows k_rope = {};  // of keys in two parts: the last k_rope_dim elements
  int64_t k_rope_dim = 0;
};

/// One query row: its data, the keys it attends, its outputs. Pointers of absent features are null.
struct QueryRow {
  const char *q;
  char *out;
  float *lse;
  const char *bias;         // at key 0
  const char *mask;         // at key 0
  int32_t low, high;        // the keys low <= j < high that causal, window and chunk leave; some of them, in a tree
  int32_t position;         // among the keys, clamped to 0 .. INT32_MAX
  float position_overflow;  // distance of the true position from that
  float slope;              // ALiBi
  float sink;               // -inf: none
};

/// The keys of a tree of new tokens, consecutive from key `first` on; none in a call without a tree.
struct NewKeys {
  int32_t first = INT32_MAX;    // of token 0, which may be negative: its key is not there
  int64_t count = 0;            // of tokens, up to the last one that has a key
  int64_t word_step = 0;        // bytes from a word of a row's bits to the next
  const char *depth = nullptr;  // of token 0; null: a token's depth is its number
  int64_t depth_step = 0;
};

/// A query row of a tree: the words of its row of tree_mask, its position, and the positions low <= p < high that
/// window and chunk leave to it.
struct TreeRow {
  const char *words;
  int64_t position, low, high;
};

/// Partial softmax of rows over some of their keys: the maximum m of the scores x, the sum of exp(x - m), and the
/// values with these weights, not normalised.
struct Partial {
  float *max;     // [rows]
  float *sum;     // [rows]
  float *values;  // [rows][head_dim_v]
};

/// Query rows whose partial softmax is computed together.
struct QueryTile {
  const Attention *attention = nullptr;
  KeyStream keys;
  int rows = 0;
  int heads = 1;  // of keys and values; consecutive rows, as many for each head
  QueryRow *row = nullptr;
  int64_t q_elem = 0, out_elem = 0;  // bytes from an element of a row to the next
  int64_t bias_elem = 0, mask_elem = 0;
  fa_dtype bias_dtype = FA_F32;
  bool alibi = false;
  bool finite_values_only = false;  // treat values that are NaN or Inf as 0
  NewKeys new_keys;
  TreeRow *tree = nullptr;  // of each row, where there are new keys
};

// Of internal linkage, as kernels are compiled for an ISA each.
namespace {

/// The rows of one head of a tile that has those of several.
inline QueryTile tile_of_head(const QueryTile &tile, int head) {
  QueryTile of_head = tile;
  of_head.heads = 1;
  of_head.rows = tile.rows / tile.heads;
  of_head.row += head * of_head.rows;
  of_head.tree += head * of_head.rows;
  const auto advance = [&](CacheRows &rows) { rows.data += head * rows.head; };
  KeyStream &keys = of_head.keys;
  advance(keys.k);
  advance(keys.v);
  advance(keys.k_rope);
  advance(keys.k_factors.scale);
  advance(keys.k_factors.zero);
  advance(keys.v_factors.scale);
  advance(keys.v_factors.zero);
  return of_head;
}

/// Its part of the tile's results.
inline Partial partial_of_head(const QueryTile &tile, int head, const Partial &all) {
  const int64_t first = tile.rows / tile.heads * head;
  return {all.max + first, all.sum + first, all.values + first * tile.attention->head_dim_v};
}

}  // namespace

/// A tile with memory for its rows.
template <int max_rows>
struct QueryTileOf : QueryTile {
  QueryTileOf() {
    row = rows_of_tile;
    tree = trees_of_tile;
  }
  QueryTileOf(const QueryTileOf &) = delete;
  QueryTileOf &operator=(const QueryTileOf &) = delete;

  QueryRow rows_of_tile[max_rows];
  TreeRow trees_of_tile[max_rows];
};
using ForwardQueryTile = QueryTileOf<max_tile_rows>;

/// A forward microkernel: a file of kernel/, compiled for each ISA, which defines its Microkernel at its end.
struct Microkernel {
  int tile_rows;          // the limit for rows of one head
  int max_rows;           // that limit where each thread has several tiles of a head: tile_rows times a power of two
  bool many_tiles;        // false: supports only heads whose rows fit in one tile
  int max_heads;          // of keys and values, consecutive ones, whose rows may be a tile together
  int max_rows_of_heads;  // the limit for the rows of several heads
  bool any_stride;        // false: elements of a key's row, and of a value's, must be contiguous

  bool finite_values = true;        // supports QueryTile::finite_values_only; the last one does
  bool finite_scores_only = false;  // rows whose sum is not finite are left to the last one

  /// Whether it supports an attention, as far as that alone decides.
  bool (*supports)(const Attention &attention);

  /// Bytes of scratch, 64-byte aligned, that a tile of this many rows needs.
  size_t (*scratch_bytes)(const Attention &attention, int rows);

  /// Computes the rows' partial softmax over keys [begin, end).
  void (*compute_partial)(const QueryTile &tile, int64_t begin, int64_t end, const Partial &partial, void *scratch);

  /// Computes keys [0, keys) and stores out and lse. False when out has no unit stride, is rotated back, or has an
  /// element that is not finite, which a masked value may have caused: the caller must then compute the tile again.
  /// nullptr where a microkernel has none.
  bool (*compute_output)(const QueryTile &tile, int64_t keys, void *scratch);
};

struct BackwardMicrokernel;  // backward/microkernel.h

/// The kernels of one ISA.
struct IsaKernels {
  const Microkernel *microkernels;  // best first; the last supports everything
  int microkernel_count;

  /// Merges `next` (later keys) into `total`, row by row.
  void (*merge)(const QueryTile &tile, const Partial &total, const Partial &next);

  /// Adds the sinks, divides, and stores out and lse.
  void (*finish)(const QueryTile &tile, const Partial &partial);

  /// Computes gradients.
  const BackwardMicrokernel *backward;

  /// Merges rows begin .. end - 1 of a call of fa_merge.
  void (*merge_parts)(const MergeCall &call, int64_t begin, int64_t end);

  /// Write a token's rows in the destination's type: as they are, and as pairs that a rotary table rotates.
  void (*convert_rows)(const TokenRows &rows);
  void (*rotate_rows)(const TokenRows &rows, const TokenRotation &rotation);

  /// Write a token's whole rows in the destination's type, and as codes. The rotation's pairs, if any, are rotated from
  /// element `first` on, and then its Hadamard blocks, if any.
  void (*rotate_whole_rows)(const TokenRows &rows, const TokenRotation &rotation, int64_t first);
  void (*quantise_rows)(const TokenRows &rows, const TokenCodes &codes, const TokenRotation &rotation, int64_t first);

  const Microkernel &fallback() const { return microkernels[microkernel_count - 1]; }
};

}  // namespace fa::cpu
