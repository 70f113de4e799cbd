// The parameters of the merge kernel: results as out and lse of Params have them, and the parts. Compiled by the host's
// compiler and by nvcc alike, and hashed as params.h is.
#pragma once

#include "common/params.h"

namespace fa::kernels {

constexpr int max_parts = 32;

/// A part's out, (batch, row, head, element), and lse, (batch, head, row); strides in bytes.
struct MergePart {
  const char *out;
  int64_t out_stride[4];
  const char *lse;
  int64_t lse_stride[3];
  int32_t dtype;  // Dtype
};

/// A call of fa_merge. Of Params it has out, lse and mask, their types and shapes; schedule is that of the launch.
struct MergeParams : Params {
  MergePart part[max_parts];
  int32_t num_parts;
  int32_t base_2;     // 1: every lse is a logarithm to base 2
  int32_t one_dtype;  // Dtype of all parts where each quad of their elements can be loaded at once; else 0

  // The numbers of rows: the heads of a query one after another, then of the next query; or the queries of a head.
  int32_t by_query;      // 1: the former
  int32_t inner, outer;  // heads and queries, or queries and heads
  double inverse_inner, inverse_outer;
};

static_assert(sizeof(MergeParams) <= 4096, "the limit of drivers before CUDA 12.1");

}  // namespace fa::kernels
