// What a kernel of the backward pass is launched with: the inputs as forward has them, and the gradients. Compiled by
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

/// What stands beside a row of scores: p = 2^(x log2 e + minus_lse2), dx = p (dP + minus_delta).
struct alignas(8) RowTerms {
  float minus_lse2;   // -lse * log2 e
  float minus_delta;  // dlse - sum_d dout[d] out[d]
};

/// A sequence's rows begin at a multiple of it among the terms.
constexpr int terms_block = 128;

/// Powers of two, of terms_block rows, by which gradients of scores are multiplied before they are rounded to f16,
/// where rows share a scale: 1 but for rows that are far below the largest one. Workspaces of whole blocks stay
/// aligned.
struct alignas(16) RowFactors {
  float factor[terms_block];
  float largest;  // of these: 1 where all are
};

/// Rows of dq that have a counter of turns, at least: a tile of more uses its first one's.
constexpr int turn_rows = 16;

/// A call of fa_backward. Of Params: out and lse are forward's results, read by Entry::delta and dsinks alone; nothing
/// is split, paged or packed, and schedule is that of the launch (common/backward_schedule.cuh).
struct BackwardParams : Params {
  View dout;                       // as out
  View dlse, given_delta;          // as lse; null when absent
  View dq, dk, dv, dbias, dsinks;  // as q, k, v, bias, sinks; null when they are not wanted

  // Of each row, in the workspace; see first_term. Entry::delta writes them, for whole blocks of terms_block rows: rows
  // behind a sequence's last query, and those whose lse is -inf, have {-inf, 0}, so that p is 0 for every finite x.
  RowTerms *terms;
  int64_t terms_rows;  // of a head (of a sequence, unless cu_seqlens_q is given): a multiple of terms_block

  // Entry::gradients, in the workspace beside the terms, as many rows as those; Entry::delta clears them. dq_sums is
  // null where another entry point computes dq, turns where blocks add in any order.
  float *dq_sums;      // rows of dq_columns, see dq_place (common/dq_sums.cuh)
  int32_t *turns;      // of each turn_rows rows: how many blocks of keys have added to them
  int32_t dq_columns;  // of the image that computes them

  // By which dq_sums are multiplied, of each terms_block terms. Entry::delta writes them. Null but in f16.
  RowFactors *row_factors;

  int32_t dbias_shape[4];  // a dimension of 1 that has more scores is their sum
  int32_t dsinks_batch;    // 1: summed over the batch
  int32_t batch_k;         // of k: sequences, rows of the cache under kv_batch_idx, 1 when packed
  int32_t dout_dtype, dq_dtype, dk_dtype, dv_dtype, dbias_dtype;  // Dtype
  uint32_t accumulate;                                            // Accumulate; what is added to is f32
};

}  // namespace fa::kernels
