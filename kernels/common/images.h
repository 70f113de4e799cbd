// The host's description of a compiled kernel: its family's entry points, the tile of each, from which grid, threads
// and shared memory follow, and the calls that it supports. Compiled by the host's compiler and by nvcc alike.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "common/archs.h"
#include "common/backward_params.h"
#include "common/tensor_maps.h"

namespace fa::kernels {

/// How a block of threads is made, and what of an SM it takes.
struct TileConfig {
  int rows;                   // of queries (Entry::dkv: worked on at a time)
  int keys;                   // worked on at a time (Entry::dkv: that a block owns); splits are whole multiples
  int threads;                // of a block
  int shared_bytes;           // dynamic shared memory of a block
  int min_blocks_per_sm = 1;  // that it leaves room for
  int stages = 1;             // tiles of keys or values that shared memory has room for
  int cluster =
      1;  // blocks of a cluster, which share their memory; the last cluster may have blocks without work tiles
  int tensor_columns = 0;   // of tensor memory (tcgen05), of the SM's 512
  bool cuts = false;        // the entry point does what Entry::split does: num_splits and heads_per_tile may exceed 1
  bool persistent = false;  // the grid is as large as the device, and blocks loop over work tiles
  int box_queries = 0;      // rows of the boxes that queries come in: the kernel takes TensorMaps; 0: it does not
  int box_keys = 0;         // the same of keys and values
  int box_out = 0;          // the same of out, where whole boxes of it are written so; 0: nowhere
  int box_columns = 64;     // of all of them: a panel's, in as many bytes as the swizzle has
  bool gathers = false;     // keys and values from pages that boxes do not reach
  bool partial_boxes = false;  // packed heads need not fill a box of queries
  int columns = 0;             // of a gradient that a block sums, others are those of the grid's next row; 0: all
};

/// Entry points. Those of forward take one Params, and TensorMaps where their tile has boxes; what is said of
/// num_splits and heads_per_tile is so unless TileConfig::cuts. Those of backward take one BackwardParams.
enum class Entry {
  plain,           // what the family is fastest at; num_splits and heads_per_tile are 1
  narrow,          // as plain, of values that have fewer columns than queries
  score_mod,       // nearly as fast, with softcap and ALiBi; num_splits and heads_per_tile are 1
  general,         // num_splits and heads_per_tile are 1
  split,           // partial results when num_splits is above 1
  decode,          // as split, of few rows
  combine,         // partial results to results
  delta,           // backward: statistics of rows
  dsinks,          // from statistics
  dkv,             // dk and dv, by blocks that own keys
  dq,              // by blocks that own queries
  bwd_fused,       // dk, dv and the terms of dq's sums, by blocks that own keys
  dq_postprocess,  // from sums to dq
  dbias            // by blocks that own its elements
};

constexpr int entry_count = 14;

constexpr const char *name_of(Entry entry) {
  constexpr const char *names[entry_count] = {
      "fa_forward_plain",  "fa_forward_narrow", "fa_forward_score_mod",       "fa_forward_general", "fa_forward_split",
      "fa_forward_decode", "fa_combine",        "fa_backward_delta",          "fa_backward_dsinks", "fa_backward_dkv",
      "fa_backward_dq",    "fa_backward_fused", "fa_backward_dq_postprocess", "fa_backward_dbias"};
  return names[int(entry)];
}

/// True of the entry points that take a BackwardParams.
constexpr bool is_backward(Entry entry) {
  return entry >= Entry::delta;
}

/// A family of kernels, as its tiles.h describes it: one constant `family` in its namespace. An op holds, in the order
/// of families.inc, the families that support its attention, up to the first that supports all of its calls; each call
/// takes the first that supports it. Under a causal mask that one has all trees as well.
struct Family {
  /// The tile of an entry point; {} for those that the family does not have.
  TileConfig (*tile)(const Arch &arch, int dim, Entry entry);

  /// The element type of the images that compute an attention.
  Dtype (*works_in)(const Attention &attention);

  /// Why the family does not support an attention; nullptr when it does.
  const char *(*unsupported_reason)(const Attention &attention);

  /// Why an entry point that the family has does not support a call; nullptr when it does. Of the schedule nothing is
  /// set.
  const char *(*unsupported_call_reason)(Entry entry, const Params &call);

  /// Some entry point supports each call of an attention that the family supports, with splits and without, but for
  /// those of unsupported_tree_reason.
  bool is_fallback;

  /// Of a family of backward: why an entry point that it has does not support a call; nullptr when it does.
  const char *(*unsupported_backward_reason)(Entry entry, const BackwardParams &call) = nullptr;

  /// A fallback that supports those calls too.
  bool has_all_trees = false;
};

/// No tile of a family asks for more shared memory than an architecture that has what the family needs gives a block,
/// nor for more of it and of tensor memory than lets as many blocks as it is meant for work side by side; each costs a
/// kilobyte of shared memory more than it asks for.
constexpr bool fits_everywhere(const Family &family, unsigned needs, std::initializer_list<int> dims) {
  for (const Arch &arch : archs)
    for (const int dim : dims)
      for (int entry = 0; entry < entry_count && (arch.hardware & needs) == needs; entry++) {
        const TileConfig tile = family.tile(arch, dim, Entry(entry));
        if ((tile.shared_bytes + 1024) * tile.min_blocks_per_sm > arch.shared_bytes + 1024) return false;
        if (tile.tensor_columns * tile.min_blocks_per_sm > 512) return false;
      }
  return true;
}

}  // namespace fa::kernels
