// Merges the partial results of fa_merge:
//   m = max_p lse_p; w_p = e^(lse_p - m); out = sum_p w_p out_p / sum_p w_p; lse = m + ln sum_p w_p
//
// The threads of a row share out its parts to find their weights, and then its columns. Sums are in the order of the
// parts.
#include "common/build.cuh"
#include "common/ptx.cuh"
#include "common/quad.cuh"
#include "merge/merge/tiles.h"

namespace fa::kernels::merge {

/// In place of a weight: the part has no keys, and its out is not read.
constexpr float no_keys = -1;

struct Row {
  int64_t batch, query, head;
};

/// n / d, whose rest takes the place of n. Of n below 2^48, which a double holds; the compiler's own division of 64
/// bits has a stack.
__device__ inline int64_t divide(int64_t &n, int64_t d, double inverse) {
  int64_t quotient = __double2ll_rz(double(n) * inverse);  // or one off
  n -= quotient * d;
  if (n < 0) n += d, quotient--;
  if (n >= d) n -= d, quotient++;
  return quotient;
}

/// Row n of all.
__device__ inline Row row_of(const MergeParams &p, int64_t n) {
  int64_t outer = divide(n, p.inner, p.inverse_inner);
  const int64_t batch = divide(outer, p.outer, p.inverse_outer);
  return p.by_query ? Row{batch, outer, n} : Row{batch, n, outer};
}

__device__ inline bool merges(const MergeParams &p, const Row &row) {
  return p.mask.data == nullptr ||
         p.mask.data[row.batch * p.mask.stride[0] + row.head * p.mask.stride[1] + row.query * p.mask.stride[2]] != 0;
}

__device__ inline float lse_of(const MergePart &part, const Row &row) {
  return *reinterpret_cast<const float *>(part.lse + row.batch * part.lse_stride[0] + row.head * part.lse_stride[1] +
                                          row.query * part.lse_stride[2]);
}

__device__ inline const char *out_of(const MergePart &part, const Row &row) {
  return part.out + row.batch * part.out_stride[0] + row.query * part.out_stride[1] + row.head * part.out_stride[2];
}

/// A row's largest log-sum-exp, the sum of its weights relative to that, and whether a log-sum-exp is NaN or +inf.
struct Softmax {
  float max = -infinity, sum = 0;
  bool wrong = false;
};

/// The weights of all parts of a row, by the `count` threads of the row, of which this one is number `lane`; called by
/// whole warps.
__device__ inline Softmax find_weights(const MergeParams &p, const Row &row, bool exists, int lane, int count,
                                       float (&weight)[max_parts]) {
  const int parts = exists ? (merges(p, row) ? p.num_parts : 1) : 0;
  for (int i = lane; i < p.num_parts; i += count) weight[i] = i < parts ? lse_of(p.part[i], row) : -infinity;
  __syncwarp();
  Softmax softmax;
  for (int i = 0; i < p.num_parts; i++) {
    const float lse = weight[i];
    softmax.max = fmaxf(softmax.max, lse);  // the other one for NaN
    softmax.wrong |= !(lse < infinity);
  }
  __syncwarp();
  const float unit = p.base_2 ? 1 : log2_e;
  for (int i = lane; i < p.num_parts; i += count)
    weight[i] = weight[i] == -infinity ? no_keys : exp2f((weight[i] - softmax.max) * unit);
  __syncwarp();
  for (int i = 0; i < p.num_parts; i++) softmax.sum += fmaxf(weight[i], 0);
  return softmax;
}

/// Four neighbouring columns of a row, summed over the parts.
template <Dtype D>
__device__ inline Quad sum_of_quads(const MergeParams &p, const Row &row, int column,
                                    const float (&weight)[max_parts]) {
  using T = CudaType<D>;
  struct alignas(4 * sizeof(T)) Packed {
    T x[4];
  };
  constexpr int depth = 4;  // parts that are loaded at a time
  Quad sum;
#pragma unroll 1
  for (int first = 0; first < p.num_parts; first += depth) {
    Packed loaded[depth];
    float w[depth];
    unroll<depth>([&](int i) {
      w[i] = first + i < p.num_parts ? weight[first + i] : no_keys;
      if (w[i] != no_keys)
        loaded[i] = *reinterpret_cast<const Packed *>(out_of(p.part[first + i], row) + column * int(sizeof(T)));
    });
    unroll<depth>([&](int i) {
      if (w[i] != no_keys) unroll<4>([&](int c) { sum.x[c] = fmaf(w[i], to_float(loaded[i].x[c]), sum.x[c]); });
    });
  }
  return sum;
}

/// A column, element by element: of parts of any type, where the weight of those that are finite is not asked for the
/// sum of the others.
__device__ inline float sum_of_column(const MergeParams &p, const Row &row, int column,
                                      const float (&weight)[max_parts], bool special) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < p.num_parts; i++) {
    if (weight[i] == no_keys) continue;
    const MergePart &part = p.part[i];
    const float x = load_element(out_of(part, row) + column * part.out_stride[3], part.dtype);
    sum = special ? sum + (is_finite(x) ? 0 : x) : fmaf(weight[i], x, sum);
  }
  return sum;
}

__device__ inline Quad sum_of_columns(const MergeParams &p, const Row &row, int column,
                                      const float (&weight)[max_parts]) {
  Quad sum;
  if (p.one_dtype == 0) {
#pragma unroll 1
    for (int c = 0; c < 4 && column + c < p.head_dim_v; c++) {
      const float x = sum_of_column(p, row, column + c, weight, false);
      unroll<4>([&](int i) { sum.x[i] = i == c ? x : sum.x[i]; });
    }
  } else {
    with_dtype(ComputeTypes(), p.one_dtype, [&](auto type) { sum = sum_of_quads<type()>(p, row, column, weight); });
  }
  return sum;
}

}  // namespace fa::kernels::merge

extern "C" __global__ void __launch_bounds__(fa::kernels::merge::threads)
    fa_combine(const __grid_constant__ fa::kernels::MergeParams p) {
  using namespace fa::kernels;
  using namespace fa::kernels::merge;
  __shared__ float weights[threads][max_parts];
  const int log2 = log2_threads_of_row(p.head_dim_v), count = 1 << log2, lane = threadIdx.x & (count - 1);
  const int64_t n = (p.schedule.first_tile + blockIdx.x) * (threads >> log2) + (threadIdx.x >> log2);
  const bool exists = n < int64_t(p.batch) * p.rows_q * p.heads_q;
  const Row row = row_of(p, exists ? n : 0);
  float (&weight)[max_parts] = weights[threadIdx.x >> log2];
  const Softmax softmax = find_weights(p, row, exists, lane, count, weight);
  if (!exists) return;
  const float factor = softmax.wrong ? nan_value() : softmax.sum == 0 ? 0 : 1 / softmax.sum;
  if (p.lse.data != nullptr && lane == 0) {
    const float log = p.base_2 ? log2f(softmax.sum) : logf(softmax.sum);
    *reinterpret_cast<float *>(p.lse.data + row.batch * p.lse.stride[0] + row.head * p.lse.stride[1] +
                               row.query * p.lse.stride[2]) = softmax.wrong      ? nan_value()
                                                              : softmax.sum == 0 ? -infinity
                                                                                 : softmax.max + log;
  }
  char *const out = p.out.data + row.batch * p.out.stride[0] + row.query * p.out.stride[1] + row.head * p.out.stride[2];
#pragma unroll 1
  for (int column = 4 * lane; column < p.head_dim_v; column += 4 * count) {
    Quad sum = sum_of_columns(p, row, column, weight);
    if (!sum.finite()) {
#pragma unroll 1
      for (int c = 0; c < 4 && column + c < p.head_dim_v; c++) {
        const float special = sum_of_column(p, row, column + c, weight, true);
        unroll<4>([&](int i) {
          if (i == c && special != 0) sum.x[i] = special;
        });
      }
    }
    unroll<4>([&](int c) { sum.x[c] = is_finite(sum.x[c]) ? sum.x[c] * factor : sum.x[c] + (factor - factor); });
    store_quad(out + column * p.out.stride[3], p.out.stride[3], p.out_dtype, sum, p.head_dim_v - column);
  }
}
