// The contract between the engine and its backward kernels: query tiles and key tiles of one head, each staged once in
// the workspace, and the gradients that a pair of them accumulates.
#pragma once

#include "cpu/tile.h"

namespace fa::cpu {

/// The data of a query row in addition to QueryRow's. A row without keys (lse = -inf) has dout null and attends
/// nothing.
struct BackwardRow {
  const char *out, *dout;
  char *dq;
  float lse;
  float delta;  // of dout and out, less the gradient of lse; where it is to be computed, the gradient of lse alone
};

/// Consecutive queries of one head, followed by a kernel's staged operands: query_bytes in all.
struct BackwardQueryTile : QueryTileOf<max_backward_rows> {
  BackwardRow gradient[max_backward_rows];
  int64_t dout_elem = 0, dq_elem = 0;
  fa_dtype dout_dtype = FA_F32, dq_dtype = FA_F32;
  int64_t head_rows = 0;  // queries of a head of k, over all heads that read it
  bool delta_given = false;
  bool add_dq = false;
  bool special = false;  // set by staging: something is NaN or infinite, or too large for exp2 without range checks
};

/// Keys first .. first + n - 1 of one head, followed by a kernel's staged operands: key_bytes in all.
struct KeyTile {
  const Attention *attention = nullptr;
  KeyStream keys;
  int64_t first = 0;
  int n = 0;
  CacheRows dk, dv;  // of key 0; null: not wanted
  fa_dtype dk_dtype = FA_F32, dv_dtype = FA_F32;
  bool add_dk = false, add_dv = false;
  bool dq_wanted = false;
  bool special = false;  // set by staging
};

/// The backward microkernel of an ISA. All pointers to memory are 64-byte aligned.
struct BackwardMicrokernel {
  int tile_rows;  // maximum of a BackwardQueryTile; key tiles have key_block keys

  // Multiples of 64.
  size_t (*query_bytes)(const Attention &attention);
  size_t (*key_bytes)(const Attention &attention);
  size_t (*scratch_bytes)(const Attention &attention);

  /// Stages a tile that the engine has described; its gradients are 0 then.
  void (*stage_queries)(BackwardQueryTile &queries, void *scratch);
  void (*stage_keys)(KeyTile &keys);

  /// Accumulates dq, dk and dv of all pairs of the two tiles.
  void (*accumulate)(const BackwardQueryTile &queries, const KeyTile &keys, void *scratch);

  /// Adds the gradients of their scores to sum[key][tile_rows]: of the scores before the softcap, or after it.
  void (*sum_scores)(const BackwardQueryTile &queries, const KeyTile &keys, bool before_softcap, float *sum,
                     void *scratch);

  /// Stores dq, or dk and dv.
  void (*store_queries)(const BackwardQueryTile &queries, void *scratch);
  void (*store_keys)(const KeyTile &keys);
};

}  // namespace fa::cpu
