// delta[i] = dot(dout[i], out[i]) - dlse[i], with lse[i] in base 2, and scales of rows;
// dsinks = sum_i exp(sink - lse[i]) (-delta[i]); and dq from the sums that blocks of keys leave. Each passes over its
// memory once, 16 bytes a thread. Sums are taken in one order, whatever the grid and the strides are.
#include "backward/delta/tiles.h"
#include "collective/backward_tile_scheduler.cuh"
#include "collective/dq_accum.cuh"
#include "collective/epilogue.cuh"
#include "collective/gradient_output.cuh"
#include "common/build.cuh"
#include "common/element.cuh"
#include "common/lanes.cuh"
#include "common/numbers.cuh"

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

/// Neighbouring elements of a row that a thread has: 16 bytes or 32.
constexpr int chunk = 8;

/// f(i, element) of those from column `first` on, 0 in place of columns that do not exist. They are read one by one
/// where they do not lie side by side.
template <class F>
__device__ inline void for_each_of_chunk(const char *row, int64_t stride, int32_t dtype, int first, int columns, F f) {
  with_dtype(ComputeTypes(), dtype, [&](auto type) {
    using T = CudaType<type()>;
    const char *const from = row + first * stride;
    if (stride == sizeof(T) && reinterpret_cast<uintptr_t>(from) % 16 == 0 && first + chunk <= columns) {
      alignas(16) T elements[chunk];
      unroll<chunk * sizeof(T) / 16>(
          [&](int i) { reinterpret_cast<uint4 *>(elements)[i] = reinterpret_cast<const uint4 *>(from)[i]; });
      unroll<chunk>([&](int i) { f(i, to_float(elements[i])); });
    } else {
      unroll<chunk>([&](int i) {
        const float x = to_float(*reinterpret_cast<const T *>(from + min(i, columns - first - 1) * stride));
        f(i, first + i < columns ? x : 0.f);
      });
    }
  });
}

/// The lanes that share a row: as many as its chunks, rounded up to a power of two, and a warp at most.
__device__ inline int lanes_of_row(int columns) {
  const int chunks = (columns + chunk - 1) / chunk;
  return min(1 << (32 - __clz(chunks - 1)), 32);
}

/// The statistics of a row; and a measure of the gradients of its scores, where rows have factors: the largest of
/// |dout| and |delta - dlse|, without the values that dout is multiplied by.
struct RowMeasures {
  RowStats stats = {-infinity, 0};
  float size = 0;
};

/// Those of a row, by `lanes` neighbouring threads; of one that does not exist, as of one without keys. Of a row
/// without keys only lse is read. By whole warps.
__device__ inline RowMeasures measure(const BackwardParams &p, const Sequence &s, Row row, bool exists, int lanes) {
  const float lse = exists ? row_number(p, p.lse, s, row) : -infinity;
  const bool has_keys = lse != -infinity, sums = p.given_delta.data == nullptr, sizes = p.row_factors != nullptr;
  float delta = 0, largest = 0;
  if (has_keys && (sums || sizes)) {
    const char *const out = result_row(p, p.out, s, row), *const dout = result_row(p, p.dout, s, row);
#pragma unroll 1
    for (int first = threadIdx.x % lanes * chunk; first < p.head_dim_v; first += lanes * chunk) {
      float of_dout[chunk];
      for_each_of_chunk(dout, p.dout.stride[3], p.dout_dtype, first, p.head_dim_v,
                        [&](int i, float x) { of_dout[i] = x, largest = fmaxf(largest, fabsf(x)); });
      if (sums)
        for_each_of_chunk(out, p.out.stride[3], p.out_dtype, first, p.head_dim_v,
                          [&](int i, float x) { delta += x * of_dout[i]; });
    }
  }
#pragma unroll 1
  for (int apart = lanes / 2; apart > 0; apart /= 2) {
    delta += __shfl_xor_sync(~0u, delta, apart);
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, apart));
  }
  if (!has_keys) return {};
  if (!sums) delta = row_number(p, p.given_delta, s, row);
  if (p.dlse.data) delta -= row_number(p, p.dlse, s, row);
  return {{-lse * log2_e, -delta}, fmaxf(largest, fabsf(delta))};
}

/// The factors of a block of rows by their sizes. By the first warp. Gradients of scores keep all their bits down to
/// 2^-21 of the largest ones of a step, and a row 2^10 below those still down to 2^-11 of its largest one: such a row
/// needs no factor.
__device__ inline void put_row_factors(RowScales *to, const float (&sizes)[stats_block]) {
  constexpr int near = 10, most = 100, bias = 127;
  const auto exponent = [](float x) { return (__float_as_int(x) >> 23) - bias; };
  const auto counts = [](float size) { return is_finite(size) && size > 0; };
  float size = 0, factor = 1;
  for (int r = threadIdx.x; r < stats_block; r += 32) size = fmaxf(size, counts(sizes[r]) ? sizes[r] : 0);
  const int top = exponent(fminf(max_over_lanes<32>(size), 0x1p100f));  // so that products stay finite
  for (int r = threadIdx.x; r < stats_block; r += 32) {
    const int apart = counts(sizes[r]) ? min(top - exponent(sizes[r]), most) : 0;
    to->factor[r] = __int_as_float((bias + (apart > near ? apart : 0)) << 23);
    factor = fmaxf(factor, to->factor[r]);
  }
  factor = max_over_lanes<32>(factor);
  if (threadIdx.x == 0) to->largest = factor;
}

/// The sum over the rows of a head that this thread has, of one sequence.
__device__ inline float sink_of_rows(const BackwardParams &p, const Sequence &s, int head) {
  const float sink = sink_of(p, s, {0, head});
  const RowStats *terms = p.row_stats + first_term(p, s, head);
  float sum = 0;
  for (int i = threadIdx.x; i < s.queries; i += threads) {
    const float weight = expf(sink - row_number(p, p.lse, s, {i, head}));
    if (terms[i].neg_lse_log2 != -infinity && weight != 0) sum += weight * terms[i].neg_dpsum;
  }
  return sum;
}

/// Clears the sums of dq of stats_block rows, and the counters of blocks that have added to them.
__device__ inline void clear_dq_sums(const BackwardParams &p, int64_t first_row) {
  auto *sums = reinterpret_cast<float4 *>(p.dq_accum + first_row * p.dq_columns);
  for (int i = threadIdx.x; i < stats_block * p.dq_columns / 4; i += threads) sums[i] = {};
  if (p.dq_semaphore != nullptr && threadIdx.x < stats_block / dq_semaphore_rows)
    p.dq_semaphore[first_row / dq_semaphore_rows + threadIdx.x] = 0;
}

}  // namespace fa::kernels::delta

/// Three blocks a multiprocessor: for more of them ptxas spills on SM 86.
extern "C" __global__ void __launch_bounds__(fa::kernels::delta::threads, 3)
    fa_backward_delta(const __grid_constant__ fa::kernels::BackwardParams p) {
  using namespace fa::kernels;
  if (p.dq_semaphore != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *key_tickets(p) = 0;
  const WorkTile w = get_initial_work_tile(p, stats_block);
  if (w.rows == 0) return;
  const int64_t first = first_term(p, w.sequence, w.head_group) + w.first_row;
  if (p.dq_accum != nullptr) delta::clear_dq_sums(p, first);
  __shared__ float sizes[stats_block];
  const int lanes = delta::lanes_of_row(p.head_dim_v);
#pragma unroll 1
  for (int r = threadIdx.x / lanes; r < stats_block; r += delta::threads / lanes) {
    const Row row = {w.first_row + r, w.head_group};
    const delta::RowMeasures found = delta::measure(p, w.sequence, row, row.query < w.rows, lanes);
    if (threadIdx.x % lanes == 0) p.row_stats[first + r] = found.stats, sizes[r] = found.size;
  }
  if (p.row_factors == nullptr) return;
  __syncthreads();
  if (threadIdx.x < 32) delta::put_row_factors(p.row_factors + first / stats_block, sizes);
}

extern "C" __global__ void __launch_bounds__(fa::kernels::delta::threads)
    fa_backward_dsinks(const __grid_constant__ fa::kernels::BackwardParams p) {
  using namespace fa::kernels;
  __shared__ float of_warps[delta::threads / 32];
  const int64_t index = p.schedule.first_tile + blockIdx.x;
  const int batch = int(index / p.heads_q), head = int(index % p.heads_q);
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
    fa_backward_dq_postprocess(const __grid_constant__ fa::kernels::BackwardParams p) {
  using namespace fa::kernels;
  const WorkTile w = get_initial_work_tile(p, stats_block);
  if (w.rows == 0) return;
  const Sequence &s = w.sequence;
  const int64_t first = first_term(p, s, w.head_group) + w.first_row;
  const float *sums = p.dq_accum + first * p.dq_columns;
  const float *factors = p.row_factors ? p.row_factors[first / stats_block].factor : nullptr;
  const Gradient dq(p.dq, p.dq_dtype, p.accumulate & accumulate_dq, q_batch(p, s), int64_t(s.q_first) + w.first_row,
                    w.head_group);
  const int column_blocks = p.dq_columns / block_columns;
  constexpr int threads_of_block = block_sums / delta::chunk;
  for (int i = threadIdx.x; i < stats_block / block_rows * column_blocks * threads_of_block; i += delta::threads) {
    const int block = i / threads_of_block, place = i % threads_of_block;
    const int row = block / column_blocks * block_rows + place / 2;
    const int column = block % column_blocks * block_columns + place % 2 * 4;
    if (w.first_row + row >= w.rows || column >= p.head_dim) continue;
    Quad quad[2];  // of this row, and of the eighth one after it
    load_block(quad, sums + block * block_sums, place);
    unroll<2>([&](int half) {
      const int own = row + half * block_rows / 2;
      if (w.first_row + own >= w.rows) return;
      const float inverse = factors ? 1 / factors[own] : 2;  // bf16's terms are halves
      unroll<4>([&](int c) { quad[half].x[c] = p.scale * (inverse * quad[half].x[c]); });
      dq.put(own, column, quad[half], p.head_dim - column);
    });
  }
}
