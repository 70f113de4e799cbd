// The host's description of a compiled kernel: its family's entry points, the tile of each, from which grid, threads
// and shared memory follow, and the calls that it supports. Compiled by the host's compiler and by nvcc alike.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "common/archs.h"
#include "common/backward_params.h"
#include "common/tensor_maps.h"

namespace fa::kernels {

/// The tile of an entry point: the shape of its blocks, and the resources of an SM that a block takes.
struct TileConfig {
  int rows;                   // queries of a block (Entry::dkv: of a step)
  int keys;                   // keys of a step (Entry::dkv: of a block); splits are whole multiples
  int threads;                // of a block
  int shared_bytes;           // dynamic shared memory of a block
  int min_blocks_per_sm = 1;  // blocks that fit on an SM together
  int stages = 1;             // tiles of keys or values that shared memory has room for
  // Blocks of a cluster, which share their memory; the last cluster may have blocks without work tiles.
  int cluster = 1;
  int tensor_columns = 0;         // of tensor memory (tcgen05), of the SM's 512
  bool splits_and_packs = false;  // as Entry::split: num_splits and heads_per_tile may exceed 1
  bool persistent = false;        // the grid is as large as the device, and blocks loop over work tiles
  int box_queries = 0;            // rows of the boxes that queries come in: the kernel takes TensorMaps; 0: it does not
  int box_keys = 0;               // the same of keys and values
  int box_out = 0;                // the same of out, where whole boxes of it are written so; 0: nowhere
  int box_columns = 64;           // of every box: a panel, as wide as the swizzle in bytes
  bool paged_gather = false;      // supports pages that boxes do not fit: cp.async gathers their rows
  bool partial_boxes = false;     // packed heads need not fill a box of queries
  bool alibi = true;              // Entry::score_mod has it
  bool values_in_keys = false;    // a row of values is the first columns of the row of keys
  int columns = 0;                // of a gradient, that a block sums; grid.y has the other columns; 0: all
};

/// Entry points. Those of forward take one Params, and TensorMaps where their tile has boxes; the limits of
/// num_splits and heads_per_tile below do not hold where TileConfig::splits_and_packs. Those of backward take one
/// BackwardParams.
enum class Entry {
  plain,           // the fastest: scores with the scale alone; num_splits and heads_per_tile are 1
  narrow,          // as plain, of values that have fewer columns than queries
  score_mod,       // nearly as fast, with softcap and ALiBi; num_splits and heads_per_tile are 1
  general,         // num_splits and heads_per_tile are 1
  split,           // partial results when num_splits is above 1
  decode,          // as split, of few rows
  combine,         // partial results to results
  delta,           // backward: rows' statistics (lse, and dO.O)
  dsinks,          // from these statistics
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
/// takes the first that supports it. Under a causal mask the last one also supports every tree.
struct Family {
  /// The tile of an entry point; {} for those that the family does not have.
  TileConfig (*tile)(const Arch &arch, int dim, Entry entry);

  /// The element type of the image that computes an attention.
  Dtype (*compute_dtype)(const Attention &attention);

  /// Why the family does not support an attention; nullptr when it does.
  const char *(*unsupported_reason)(const Attention &attention);

  /// Why an entry point that the family has does not support a call; nullptr when it does. call.schedule is not set
  /// yet.
  const char *(*unsupported_call_reason)(Entry entry, const Params &call);

  /// Some entry point supports each call of an attention that the family supports, with splits and without, but for
  /// those of unsupported_tree_reason.
  bool is_fallback;

  /// For a family of backward: why an entry point that it has does not support a call; nullptr when it does.
  const char *(*unsupported_backward_reason)(Entry entry, const BackwardParams &call) = nullptr;

  /// A fallback that also supports the calls of unsupported_tree_reason.
  bool has_all_trees = false;
};

/// Whether min_blocks_per_sm blocks of every tile fit on an SM of each architecture that the family is built for:
/// shared memory, of which each block costs a kilobyte more than it asks for, and tensor memory.
constexpr bool fits_every_arch(const Family &family, unsigned needs, std::initializer_list<int> dims) {
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
