// Joins the partial results of all splits, in their order: a warp a row.
//   m = max_s m_s; l = sum_s e^(m_s - m) l_s; out = sum_s e^(m_s - m) O_s / l
//
// Block (x, y) works on rows y * rows and after of the tile at place x.
#include "combine/tiles.h"
#include "common/build.cuh"
#include "common/element.cuh"
#include "common/finish.cuh"
#include "common/lanes.cuh"
#include "common/ptx.cuh"
#include "common/repair.cuh"

namespace fa::kernels::combine {

__device__ inline void combine_row(const Params &p, const Work &w, int row_of_tile) {
  const int lane = threadIdx.x % 32, splits = p.schedule.num_splits;
  const int64_t first = w.partial_row + row_of_tile, step = p.partial_rows;
  const Row row = row_at(p, w, w.first_row + row_of_tile);

  Softmax all;
  for (int i = lane; i < splits; i += 32) all.max = fmaxf(all.max, load_partial(p, first + i * step).max);
  all.max = max_over_lanes<32>(all.max);
  const float finite = finite_max(all.max);
  for (int i = 0; i < splits; ++i) {
    const Softmax part = load_partial(p, first + i * step);
    all.sum += part.sum * weight_of(part.max - finite);
  }

  const float factor = finish_row(p, w.sequence, row, all, lane == 0);
  char *out = out_row(p, w.sequence, row);
  for (int d = lane; d < p.head_dim_v; d += 32) {
    float sum = 0, special = 0;
    for (int i = 0; i < splits; ++i) {
      const int64_t part = first + i * step;
      const float value = p.partial_values[part * p.head_dim_v + d];
      if (is_finite(value)) {
        sum += value * weight_of(load_partial(p, part).max - finite);
      } else {
        special += value;
      }
    }
    store_element(out + d * p.out.stride[3], p.out_dtype, finished(sum, special, factor, all));
  }
}

}  // namespace fa::kernels::combine

extern "C" __global__ void __launch_bounds__(32 * fa::kernels::combine::rows)
    fa_combine(const __grid_constant__ fa::kernels::Params params) {
  using namespace fa::kernels;
  griddepcontrol_wait();
  const Work w = work_of_tile(params, params.schedule.tile_rows, blockIdx.x, 0);
  const int row = blockIdx.y * combine::rows + threadIdx.x / 32;
  if (w.rows == 0 || row >= params.schedule.tile_rows || w.first_row + row >= w.rows) return;
  combine::combine_row(params, w, row);
}
