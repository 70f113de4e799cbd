// The destination of a row's results, and their correction where NaN or Inf has reached them, in kernels whose work
// tiles are repeated (work_items.cuh).
#pragma once

#include "collective/epilogue.cuh"
#include "collective/nonfinite.cuh"

namespace fa::kernels {

/// Where results of a row go: out, or the partial results of a split.
struct Target {
  char *row;
  int64_t stride;  // from element to element
  int32_t dtype;
};

__device__ inline Target target_of(const Params &p, const WorkTile &w, int32_t row) {
  if (p.schedule.num_splits == 1) return {out_row(p, w.sequence, row_at(p, w, row)), p.out.stride[3], p.out_dtype};
  float *const partial = p.o_partial + (w.partial_row + row - w.first_row) * p.head_dim_v;
  return {reinterpret_cast<char *>(partial), sizeof(float), f32};
}

/// Sets the elements of row `row` that attended values which are not finite reach to the result of these; by a whole
/// warp.
__device__ inline void add_special_values(const Params &p, const WorkTile &w, int32_t row, Interval keys) {
  const Target to = target_of(p, w, row);
#pragma unroll 1
  for (int32_t d = threadIdx.x % 32; d < p.head_dim_v; d += 32) {
    char *const at = to.row + d * to.stride;
    if (!is_finite(load_element(at, to.dtype))) continue;
    const float special = nonfinite_sum<false>(p, w, row_at(p, w, row), keys, d);
    if (special != 0) store_element(at, to.dtype, special);
  }
}

}  // namespace fa::kernels
