// The parameters of the append kernel for quantised and for rotated caches: which rows become codes, and their scales
// and zeros, or are rotated by a Hadamard matrix. Compiled by the host's compiler and by nvcc alike, and hashed as
// params.h is.
#pragma once

#include "common/append_params.h"
#include "common/quantised_params.h"

namespace fa::kernels {

/// Rows of a RowStream that become codes, or are rotated as a whole, by way of shared memory. There a row has, one part
/// behind the other, its numbers in f32, a scale and a zero of each group, and its codes. The RowStream says how
/// numbers come there; of its `to`, elements are those numbers, and rows those of the cache.
struct CodeStream {
  Factors scale, zero;    // absent ones have one group
  int64_t step;           // bytes from a code to the next; of packed ones from a byte to the next
  int32_t dtype;          // CodeDtype; 0: numbers
  int32_t number_dtype;   // then theirs: Dtype
  int32_t computed;       // 1: scales and zeros are written
  int32_t dim;            // numbers of a row; 0: rows of another way
  int32_t rotated;        // of these the first ones, in blocks of `block`, a power of two, times `factor`
  int32_t block;          // 1: none
  float factor;           // 1 / sqrt(block)
  int32_t scales, zeros;  // of a row
  int32_t whole_groups;   // 1: eight numbers from a multiple of eight on have one scale and one zero
  int32_t lanes;          // that share a row: a power of two, of which `group_lanes` compute a scale
  int32_t group_lanes;
  int32_t word;                                   // bytes that are stored at a time: 8, 4, 2 or 1
  int32_t scales_at, zeros_at, codes_at, memory;  // bytes from the beginning of a row in shared memory; of it all
  int32_t code_bytes;                             // of a row
  FastDivmod by_scale_channels, by_zero_channels;
};

/// A call of fa_append into a cache whose k or v is quantised or rotated.
struct AppendCodesParams : AppendParams {
  CodeStream codes[append_streams];
};

static_assert(sizeof(AppendCodesParams) <= 4096, "the limit of drivers before CUDA 12.1");

}  // namespace fa::kernels
