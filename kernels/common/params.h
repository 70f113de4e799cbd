// The parameters of a kernel: one plain structure that the host fills and every kernel takes by value. Compiled by
// the host's compiler and by nvcc alike; a hash of this file travels in every image, so that the two always agree.
#pragma once

#include <cstdint>

#include "common/element.h"

namespace fa::kernels {

/// A tensor of a call; strides in bytes, 0 where a dimension is repeated. data is null when it is absent.
/// (batch, row, head, element); bias and mask: (batch, head, query, key); lse: (batch, head, row, -);
/// slopes and sinks: (batch, head, -, -); block_table: (batch, page, -, -); tree_mask: (batch, head, row, word);
/// tree_depth: (batch, row, -, -).
struct View {
  char *data;
  int64_t stride[4];
};

/// Strides of batch entries (or pages) and of rows, in units of Params::stride_unit bytes.
struct RowSteps {
  int32_t entry, row;
};

/// A divisor of numbers below 2^31 as a product and a shift, in place of a dozen dependent instructions: see quotient.
/// {0, 31}: all quotients are 0.
struct FastDivmod {
  uint32_t multiplier;
  int32_t shift;
};

/// How the call is divided among blocks. A tile is tile_rows rows of one sequence and one key/value head (or of
/// one query head where heads_per_tile is 1): row r is query r / heads_per_tile of head first + r % heads_per_tile. A
/// column is the tiles of one head group, of one sequence unless cu_seqlens_q is given. Blocks number splits fastest,
/// then columns of a section, then tiles from the last, then sections; see collective/tile_scheduler.cuh.
struct TileSchedulerParams {
  int32_t tile_rows;       // rows of a tile: TileConfig::rows, or fewer where packed heads do not fill it
  int32_t tiles;           // of each sequence, or of all together when cu_seqlens_q is given
  int32_t sequence_tiles;  // and then: of each sequence; or 0: one more than its rows fill, so that where they begin
                           // follows from cu_seqlens_q alone (see sequence_of_tile)
  int32_t head_groups;     // heads_q / heads_per_tile
  int32_t heads_per_tile;  // of a tile: 1, or a divisor of heads_q / heads_kv
  int32_t num_splits;      // 1: the kernel writes results; else partial results for combine
  int32_t split_keys;      // 0: each sequence's keys are shared out evenly; else of one split, the last ones shorter
  int32_t tail_tiles;      // the first tiles of each column, which come after all others, in one section
  int64_t l2_section;      // columns whose keys and values stay in L2 together; all of them: one section
  int64_t blocks;          // of this launch that have a work tile, splits included
  int64_t first_tile;      // of this launch, heads counted in: a call has several launches where a grid, or the memory
                           // for partial results, is too small for all tiles
};

/// The layout of rows of 16-bit elements. aligned: rows start on 16 bytes. vectorizable: they are also whole multiples
/// of 16 bytes long, with 32-bit offsets within a tile.
enum Layout : int32_t { unaligned_rows, aligned_rows, vectorizable_rows };

/// vectorizable_rows: the bytes from one row to the next are fewer than this.
constexpr int64_t longest_row = int64_t{1} << 24;

/// The attention of an op, from which its families and their images follow.
struct Attention {
  int32_t q_dtype, kv_dtype, out_dtype;  // Dtype
  int32_t head_dim, head_dim_v;
  int32_t causal;                     // 1: no key after the query's position
  int32_t top_left;                   // 1: positions count from query 0 = key 0
  int64_t window_left, window_right;  // -1: open; up to 2^33, as positions are below 2^32
  int64_t chunk;                      // 0: none; up to 2^33
  float scale;
  float softcap;                // 0: none
  int32_t bias_before_softcap;  // 1: the addend comes before the softcap
};

/// A call of it.
struct Params : Attention {
  View q, k, v, out;
  View lse, bias, mask, alibi_slopes, sinks, block_table;
  View tree_mask, tree_depth;  // depths: only in calls with a window, a chunk or ALiBi

  // Arrays of the call in device memory, null when absent; as in fa.h.
  const int32_t *cu_seqlens_q, *cu_seqlens_k;
  const int32_t *seqused_q, *seqused_k;
  const int32_t *leftpad_k, *kv_batch_idx, *q_offset;

  // Partial results of every split, when there is more than one; see collective/epilogue.cuh. A tile's rows are
  // adjacent, in the order of this launch's tiles: memory is needed only for tiles that exist.
  float *o_partial;      // (split, row, head_dim_v): sum_j e^(x_j - max) v_j
  float *ml_partial;     // (split, row, 2): the softmax reference, at most rescale_threshold below the largest score;
                         // sum_j e^(x_j - max)
  int64_t partial_rows;  // of all tiles of a launch: the stride of splits

  TileSchedulerParams schedule;

  int32_t bias_dtype;  // Dtype
  int32_t batch, heads_q, heads_kv;
  int32_t rows_q, rows_k;              // of every sequence; packed: unused
  int32_t max_seqlen_q, max_seqlen_k;  // bounds of a sequence
  int32_t page_size;                   // 0: not paged
  RowSteps k_steps, v_steps;           // any row's offset in these units fits 32 bits
  int32_t stride_unit;                 // 0: offsets need 64 bits
  int32_t table_step;                  // bytes from entry to entry of the block table; 0 where stride_unit is 0

  // Derived from the fields above by the host (cuda/derive.h).
  FastDivmod by_num_splits, by_head_groups, by_heads_per_tile, by_page_size, by_tile_rows, by_sequence_tiles;
  FastDivmod by_groups_of_kv_head;       // head_groups / heads_kv
  int32_t q_layout, k_layout, v_layout;  // Layout
  int32_t is_varlen;                     // 1: some of the arrays of the call are there
  int32_t has_key_bounds;  // 1: a causal mask, a tree, a window or a chunk may hide keys of a query's sequence
  int32_t has_score_mod;   // 1: a softcap, a bias, ALiBi or a mask makes scores differ from the scaled products
  float inverse_softcap;   // 1 / softcap, small enough to be multiplied by 2 log2 e
};

/// Why families that take ALiBi's distances from the keys' positions do not support a call with a tree; nullptr: they
/// do.
constexpr const char *unsupported_tree_reason(const Params &p) {
  return p.tree_depth.data != nullptr && p.alibi_slopes.data != nullptr ? "ALiBi by the depths of a tree" : nullptr;
}

}  // namespace fa::kernels
