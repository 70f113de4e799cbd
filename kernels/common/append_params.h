// The parameters of the append kernel: rows of new tokens, and of queries, each from one tensor to another. Compiled by
// the host's compiler and by nvcc alike, and hashed as params.h is.
#pragma once

#include "common/params.h"

namespace fa::kernels {

/// Rows that are written from one tensor into another, one for each token and head. A thread moves an item at a time:
/// the elements of `width` pairs, or `width` elements that have none.
struct RowStream {
  View from, to;
  int64_t tiles;                 // of rows
  int32_t from_dtype, to_dtype;  // Dtype
  int32_t heads;
  int32_t first, pairs;  // the elements that are rotated: 2 pairs from `first` on
  int32_t width;         // 8 where vectors reach whole items; else 1
  int32_t items;         // of a row
  int32_t tile_rows;     // rows of a block of threads
  FastDivmod by_items, by_heads;
};

enum AppendStream { k_stream, v_stream, k_rope_stream, q_stream, append_streams };

/// A call of fa_append. Of Params it has block_table, leftpad_k, kv_batch_idx, batch, rows_q and page_size; schedule is
/// that of the launch.
struct AppendParams : Params {
  RowStream stream[append_streams];  // one without tiles is absent
  View rotary_cos, rotary_sin;       // (-, position, -, pair)
  View positions, q_positions, slot_mapping;
  const int32_t *cu_seqlens_new, *seqused_new, *cache_seqlens;
  int32_t rows_new;                                      // of k, of every sequence; packed: of all
  int32_t cos_dtype, sin_dtype;                          // Dtype
  int32_t table_vectors;                                 // 1: eight numbers of a row of the tables are a vector each
  int32_t interleaved;                                   // 1: pairs are neighbours
  int32_t positions_wide, q_positions_wide, slots_wide;  // 1: of 64 bits
};

static_assert(sizeof(AppendParams) <= 4096, "the limit of drivers before CUDA 12.1");

}  // namespace fa::kernels
