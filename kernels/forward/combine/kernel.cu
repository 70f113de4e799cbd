// Joins the partial results of all splits:
//   m = max_s m_s; l = sum_s e^(m_s - m) l_s; out = sum_s e^(m_s - m) O_s / l
//
// A row's splits are shared out: each group of eight threads has eight of them, and each of its threads four columns,
// which it asks for at once and before their weights are known. So up to 256 splits wait for memory once; more of them
// take further rounds. Sums are those of a binary tree over the splits of a round, where a split that does not exist
// counts as 0: a row's bits follow from its own splits, whatever their number and the block's shape.
#include "collective/epilogue.cuh"
#include "collective/nonfinite.cuh"
#include "common/build.cuh"
#include "common/ptx.cuh"
#include "forward/combine/sums.cuh"

namespace fa::kernels::combine {

/// A row's partial results, from a column on.
struct Partials {
  const float *values;  // of split 0
  int64_t row, rows;    // of split 0 and of each split
  int splits, columns;  // that this thread has; no splits where there is no such row or column

  /// The sum of the values of a column that are NaN or infinite.
  __device__ float special(const Params &p, int c) const {
    float special = 0;
#pragma unroll 1
    for (int i = 0; i < splits; i++) {
      const float value = values[i * rows * p.head_dim_v + c];
      if (!is_finite(value)) special += value;
    }
    return special;
  }
};

/// log2_groups(splits), in fewer instructions.
__device__ inline int log2_of_groups(int splits) {
  static_assert(depth == 8 && log2_groups(max_span) == 5);
  return splits <= depth ? 0 : min(32 - __clz((splits - 1) / depth), 5);
}

/// The maximum, the sum and the weighted values of a row; the latter two in the first threads of the row. Calls
/// meanwhile() when it has asked for them.
template <class F>
__device__ inline Softmax combine_row(const Params &p, const Partials &partials, int log2, Quad &sum, F meanwhile) {
  __shared__ float maxima_of_warps[threads / 32], weights_of_warps[threads / 32];
  __shared__ Quad values_of_warps[threads / 32][quads];
  const int span = depth << log2;
  const int place = threadIdx.x & (span - 1),
            first = place / quads * depth;  // the own split, and the group's first one
  const int64_t step = partials.rows * p.head_dim_v;
  const auto load = [&](int i) {
    return i < partials.splits ? load_partial(p, partials.row + i * partials.rows) : Softmax{};
  };

  float max = -infinity, finite = 0;
  Sums sums;
#pragma unroll 1
  for (int round = 0; round < p.schedule.num_splits; round += span) {
    const Softmax own = load(round + place);
    Quad values[depth];
    load_quads(values, partials.values + (round + first) * step, step, partials.splits - round - first,
               partials.columns);
    if (round == 0) {
      meanwhile();
      max = own.max;
      for (int i = span + place; i < p.schedule.num_splits; i += span) max = fmaxf(max, load(i).max);
      max = max_over_threads(max, span, maxima_of_warps);
      finite = finite_max(max);
    }
    const float weight = weight_of(own.max - finite);
    sums.weights += sum_over_lanes<depth>(own.sum * weight);
    add_weighted(sums.values, weight, values);
  }
  sums = sum_over_groups(sums, 1 << log2, values_of_warps, weights_of_warps);
  sum = sums.values;
  return {max, sums.weights};
}

}  // namespace fa::kernels::combine

/// Block (x, y, z) has some rows and columns of the tile at place x; see tiles.h.
extern "C" __global__ void __launch_bounds__(fa::kernels::combine::threads, 3)
    fa_combine(const __grid_constant__ fa::kernels::Params p) {
  using namespace fa::kernels;
  using namespace fa::kernels::combine;
  griddepcontrol_launch_dependents();  // the next call's kernel, which waits
  // Everything but the partial results is ready before the kernel that computes them ends.
  const WorkTile w = get_work_tile(p, p.schedule.tile_rows, blockIdx.x, 0);
  const int splits = p.schedule.num_splits, log2 = log2_of_groups(splits);
  const int first_row = blockIdx.y * (rows(1) >> log2), row_of_tile = first_row + (threadIdx.x / depth >> log2);
  const int column = blockIdx.z * columns + threadIdx.x % quads * 4;
  const bool exists = row_of_tile < p.schedule.tile_rows && w.first_row + row_of_tile < w.rows;
  const bool in_first_group = (threadIdx.x & ((depth << log2) - 1)) < quads;
  const bool writes = exists && in_first_group && column < p.head_dim_v;
  const int64_t partial_row = w.partial_row + row_of_tile;
  const Partials partials = {p.o_partial + partial_row * p.head_dim_v + column, partial_row, p.partial_rows,
                             exists ? splits : 0, p.head_dim_v - column};
  Row row = {};
  float sink = 0;
  const auto find_row = [&] {
    if (!writes) return;
    row = row_at(p, w, w.first_row + row_of_tile);
    sink = sink_of(p, w.sequence, row);
  };
  constexpr bool waits = this_arch.has(pdl);  // so that this is for nothing
  if (waits) find_row();
  griddepcontrol_wait();
  if (first_row >= p.schedule.tile_rows || w.first_row + first_row >= w.rows) return;

  Quad sum;
  const Softmax all = combine_row(p, partials, log2, sum, [&] {
    if (!waits) find_row();
  });
  if (!writes) return;
  const float factor = finish_row(p, w.sequence, row, all, sink, column == 0);
  float special[4] = {};
  if (!sum.finite()) {
    unroll<4>([&](int c) {
      if (!is_finite(sum.x[c])) special[c] = partials.special(p, c);
    });
  }
  unroll<4>([&](int c) { sum.x[c] = finished(sum.x[c], special[c], factor, all); });
  store_quad(out_row(p, w.sequence, row) + column * p.out.stride[3], p.out.stride[3], p.out_dtype, sum,
             partials.columns);
}
