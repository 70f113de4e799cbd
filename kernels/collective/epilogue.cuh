// From a row's unfinished softmax to its results: the sink, the division, the lse; or to memory, for combine.
#pragma once

#include "collective/tile_scheduler.cuh"
#include "common/numbers.cuh"

namespace fa::kernels {

/// A row's softmax over the keys seen so far: a reference, which no score is so far above that its weight overflows,
/// and sum_j e^(x_j - max).
struct Softmax {
  float max = -infinity, sum = 0;
};

/// e^x, of a difference of scores.
__device__ inline float weight_of(float x) {
  return exp2f(x * log2_e);
}

/// x, or 0 for -inf: the offset of scores that may all be -inf.
__device__ inline float finite_max(float x) {
  return x == -infinity ? 0 : x;
}

/// The sink of a row's head; 0 in a call without sinks.
__device__ inline float sink_of(const Params &p, const Sequence &s, Row row) {
  if (p.sinks.data == nullptr) return 0;
  return *reinterpret_cast<const float *>(p.sinks.data + s.index * p.sinks.stride[0] + row.head * p.sinks.stride[1]);
}

/// The factor of a row's sum of weighted values; 0 for a row without keys. Adds the head's sink to the
/// softmax and writes its lse.
__device__ inline float finish_row(const Params &p, const Sequence &s, Row row, Softmax softmax, float sink,
                                   bool writes_lse) {
  float factor = 1;
  if (p.sinks.data) {
    const float max = fmaxf(softmax.max, sink), finite = finite_max(max);
    factor = weight_of(softmax.max - finite);
    softmax.sum = softmax.sum * factor + weight_of(sink - finite);
    softmax.max = max;
  }
  if (p.lse.data && writes_lse) {
    char *lse = p.lse.data + q_batch(p, s) * p.lse.stride[0] + row.head * p.lse.stride[1] +
                int64_t(s.q_first + row.query) * p.lse.stride[2];
    *reinterpret_cast<float *>(lse) = softmax.sum == 0 ? -infinity : softmax.max + logf(softmax.sum);
  }
  return softmax.sum == 0 ? 0 : factor / softmax.sum;
}

/// An element of a result: sum is of its finite weighted values, special of those that are NaN or infinite, which no
/// weight changes. Scores of -inf alone leave no key, whatever the values are.
__device__ inline float finished(float sum, float special, float factor, const Softmax &softmax) {
  return softmax.sum == 0 ? 0 : special == 0 ? sum * factor : special + (factor - factor);
}

/// The address of a row of q.
__device__ inline const char *q_row(const Params &p, const Sequence &s, Row row) {
  return p.q.data + q_batch(p, s) * p.q.stride[0] + int64_t(s.q_first + row.query) * p.q.stride[1] +
         row.head * p.q.stride[2];
}

/// The address of a row of out.
__device__ inline char *out_row(const Params &p, const Sequence &s, Row row) {
  return p.out.data + q_batch(p, s) * p.out.stride[0] + int64_t(s.q_first + row.query) * p.out.stride[1] +
         row.head * p.out.stride[2];
}

/// The unfinished softmax of a row of partial results.
__device__ inline Softmax load_partial(const Params &p, int64_t partial_row) {
  const float2 both = *reinterpret_cast<const float2 *>(p.ml_partial + 2 * partial_row);
  return {both.x, both.y};
}
__device__ inline void store_partial(const Params &p, int64_t partial_row, const Softmax &softmax) {
  *reinterpret_cast<float2 *>(p.ml_partial + 2 * partial_row) = {softmax.max, softmax.sum};
}

}  // namespace fa::kernels
