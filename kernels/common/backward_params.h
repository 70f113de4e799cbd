// The parameters of the backward kernels: the inputs as forward has them, and the gradients. Compiled by
// the host's compiler and by nvcc alike, and hashed as params.h is.
#pragma once

#include "common/params.h"

namespace fa::kernels {

/// Bits of BackwardParams::accumulate, numbered as FA_ACCUMULATE_* are.
enum Accumulate : uint32_t {
  accumulate_dq = 1,
  accumulate_dk = 2,
  accumulate_dv = 4,
  accumulate_dbias = 8,
  accumulate_dsinks = 16
};

/// The statistics of a row of scores: p = 2^(x log2 e + neg_lse_log2), dx = p (dP + neg_dpsum).
struct alignas(8) RowStats {
  float neg_lse_log2;  // -lse * log2 e
  float neg_dpsum;     // dlse - sum_d dout[d] out[d]
};

/// A sequence's rows begin at a multiple of it in row_stats.
constexpr int stats_block = 128;

/// Powers of two, of stats_block rows, by which gradients of scores are multiplied before they are rounded to f16,
/// where rows share a scale: 1 but for rows that are far below the largest one. Workspaces of whole blocks stay
/// aligned.
struct alignas(16) RowScales {
  float factor[stats_block];
  float largest;  // of these: 1 where all are
};

/// The rows of dq that share a semaphore, at least: a tile of more rows uses the first of its semaphores.
constexpr int dq_semaphore_rows = 16;

/// A call of fa_backward. Of Params: out and lse are forward's results, read by Entry::delta and dsinks alone; nothing
/// is split, paged or packed, and schedule is that of the launch (collective/backward_tile_scheduler.cuh).
struct BackwardParams : Params {
  View dout;                       // as out
  View dlse, given_delta;          // as lse; null when absent
  View dq, dk, dv, dbias, dsinks;  // as q, k, v, bias, sinks; null when they are not wanted

  // Of each row, in the workspace; see first_term. Entry::delta writes them, for whole blocks of stats_block rows: rows
  // behind a sequence's last query, and those whose lse is -inf, have {-inf, 0}, so that p is 0 for every finite x.
  RowStats *row_stats;
  int64_t stats_rows;  // of a head (of a sequence, unless cu_seqlens_q is given): a multiple of stats_block

  // Entry::bwd_fused, in the workspace, as many rows as row_stats has; Entry::delta clears them. dq_accum is null where
  // another entry point computes dq, dq_semaphore where blocks add in any order.
  float *dq_accum;        // rows of dq_columns, see dq_offset (collective/dq_accum.cuh)
  int32_t *dq_semaphore;  // of each dq_semaphore_rows rows: how many blocks of keys have added to them
  int32_t dq_columns;     // of the image that computes them

  // The scales of dq_accum, one record for stats_block rows. Entry::delta writes them. Null but in f16.
  RowScales *row_factors;

  int32_t dbias_shape[4];  // a dimension of 1 that has more scores is their sum
  int32_t dsinks_batch;    // 1: summed over the batch
  int32_t batch_k;         // of k: sequences, rows of the cache under kv_batch_idx, 1 when packed
  int32_t dout_dtype, dq_dtype, dk_dtype, dv_dtype, dbias_dtype;  // Dtype
  uint32_t accumulate;                                            // Accumulate, of gradients in f32
};

}  // namespace fa::kernels
