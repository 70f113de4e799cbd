// delta[i] = dot(dout[i], out[i]) - dlse[i], beside lse[i] in base 2; dsinks = sum_i exp(sink - lse[i])
// (-delta[i]); and dq from the sums that blocks of keys leave. A warp has a row of delta. Sums are taken in one order,
// whatever the grid is.
#include "common/backward_schedule.cuh"
#include "common/build.cuh"
#include "common/dq_sums.cuh"
#include "common/element.cuh"
#include "common/finish.cuh"
#include "common/gradient.cuh"
#include "common/lanes.cuh"
#include "delta/tiles.h"

namespace fa::kernels::delta {

/// The number that a tensor shaped as lse has for a row.
__device__ inline float row_number(const BackwardParams &p, const View &view, const Sequence &s, Row row) {
  return *reinterpret_cast<const float *>(view.data + q_batch(p, s) * view.stride[0] + row.head * view.stride[1] +
                                          int64_t(s.q_first + row.query) * view.stride[2]);
}

/// The address of a row of a tensor shaped as out.
__device__ inline const char *result_row(const BackwardParams &p, const View &view, const Sequence &s, Row row) {
  return view.data + q_batch(p, s) * view.stride[0] + int64_t(s.q_first + row.query) * view.stride[1] +
         row.head * view.stride[2];
}

/// By a warp. Of a row without keys left nothing but its lse is looked at.
__device__ inline RowTerms terms_of(const BackwardParams &p, const Sequence &s, Row row) {
  const float lse = row_number(p, p.lse, s, row);
  if (lse == -infinity) return {-infinity, 0};
  float delta = 0;
  if (p.given_delta.data) {
    delta = row_number(p, p.given_delta, s, row);
  } else {
    const char *out = result_row(p, p.out, s, row), *dout = result_row(p, p.dout, s, row);
#pragma unroll 2  // with more, ptxas spills for SM 100
    for (int d = threadIdx.x % 32; d < p.head_dim_v; d += 32)
      delta += load_element(out + d * p.out.stride[3], p.out_dtype) *
               load_element(dout + d * p.dout.stride[3], p.dout_dtype);
    delta = sum_over_lanes<32>(delta);
  }
  if (p.dlse.data) delta -= row_number(p, p.dlse, s, row);
  return {-lse * log2_e, -delta};
}

/// The sum over the rows of a head that this thread has, of one sequence.
__device__ inline float sink_of_rows(const BackwardParams &p, const Sequence &s, int head) {
  const float sink = sink_of(p, s, {0, head});
  const RowTerms *terms = p.terms + first_term(p, s, head);
  float sum = 0;
  for (int i = threadIdx.x; i < s.queries; i += threads) {
    const float weight = weight_of(sink - row_number(p, p.lse, s, {i, head}));
    if (terms[i].minus_lse2 != -infinity && weight != 0) sum += weight * terms[i].minus_delta;
  }
  return sum;
}

/// Clears what blocks of keys add to, of terms_block rows, and how many have.
__device__ inline void clear_dq_sums(const BackwardParams &p, int64_t first_row) {
  auto *sums = reinterpret_cast<float4 *>(p.dq_sums + first_row * p.dq_columns);
  for (int i = threadIdx.x; i < terms_block * p.dq_columns / 4; i += threads) sums[i] = {};
  if (p.turns != nullptr && threadIdx.x < terms_block / turn_rows) p.turns[first_row / turn_rows + threadIdx.x] = 0;
}

}  // namespace fa::kernels::delta

extern "C" __global__ void __launch_bounds__(fa::kernels::delta::threads)
    fa_backward_delta(const __grid_constant__ fa::kernels::BackwardParams p) {
  using namespace fa::kernels;
  const Work w = work_of_block(p, terms_block);
  if (w.rows == 0) return;
  const int64_t first = first_term(p, w.sequence, w.head_group) + w.first_row;
  if (p.dq_sums != nullptr) delta::clear_dq_sums(p, first);
  RowTerms *to = p.terms + first;
  for (int r = threadIdx.x / 32; r < terms_block; r += delta::threads / 32) {
    const Row row = {w.first_row + r, w.head_group};
    RowTerms terms = {-infinity, 0};
    if (row.query < w.rows) terms = delta::terms_of(p, w.sequence, row);
    if (threadIdx.x % 32 == 0) to[r] = terms;
  }
}

extern "C" __global__ void __launch_bounds__(fa::kernels::delta::threads)
    fa_backward_dsinks(const __grid_constant__ fa::kernels::BackwardParams p) {
  using namespace fa::kernels;
  __shared__ float of_warps[delta::threads / 32];
  const int64_t place = p.schedule.first_tile + blockIdx.x;
  const int batch = int(place / p.heads_q), head = int(place % p.heads_q);
  const bool all = p.dsinks_batch == 1;
  float sum = 0;
  for (int b = all ? 0 : batch; b < (all ? p.batch : batch + 1); b++)
    sum += delta::sink_of_rows(p, sequence(p, b), head);
  sum = sum_over_lanes<32>(sum);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < delta::threads / 32; warp++) sum += of_warps[warp];
  auto *to = reinterpret_cast<float *>(p.dsinks.data + batch * p.dsinks.stride[0] + head * p.dsinks.stride[1]);
  *to = (p.accumulate & accumulate_dsinks ? *to : 0) + sum;
}

extern "C" __global__ void __launch_bounds__(fa::kernels::delta::threads)
    fa_backward_dq_sums(const __grid_constant__ fa::kernels::BackwardParams p) {
  using namespace fa::kernels;
  const Work w = work_of_block(p, terms_block);
  if (w.rows == 0) return;
  const Sequence &s = w.sequence;
  const float *sums = p.dq_sums + (first_term(p, s, w.head_group) + w.first_row) * p.dq_columns;
  const Gradient dq(p.dq, p.dq_dtype, p.accumulate & accumulate_dq, q_batch(p, s), int64_t(s.q_first) + w.first_row,
                    w.head_group);
  const int quads = p.dq_columns / 4;
  for (int i = threadIdx.x; i < terms_block * quads; i += delta::threads) {
    const int row = i / quads, column = i % quads * 4;
    if (w.first_row + row >= w.rows || column >= p.head_dim) continue;
    Quad quad;
    unroll<4>([&](int c) { quad.x[c] = p.scale * sums[dq_place(p, row, column + c)]; });
    dq.put(row, column, quad, p.head_dim - column);
  }
}
