// The rescaling policy of the online softmax: when a row's running maximum moves, and the exponents of its weights.
#pragma once

#include "common/numbers.cuh"
#include "common/params.h"

namespace fa::kernels {

/// Where m is set, a row's largest weight becomes 2^max_offset. m moves only when a weight exceeds that by a factor of
/// 2^rescale_threshold (wgmma, and tcgen05 in bf16, have separate bounds): larger weights lose no precision, and l and
/// O are rescaled rarely. In f16 the offset keeps all bits of weights down to 2^-24 of the largest.
constexpr float max_offset(Dtype type) {
  return type == f16 ? 10 : 0;
}
constexpr float rescale_threshold(Dtype type) {
  return type == f16 ? 5 : 8;
}
static_assert(max_offset(f16) + rescale_threshold(f16) <= 15);

/// Above this magnitude of m, the product c x is rounded so coarsely that c x - m is not near 0 for the largest score.
constexpr float exact_score_threshold = 0x1p22f;

/// The exponent of a weight: c (x - m) in an exact row, which is 0 where x is m, however large both are; else c x - m,
/// a single FMA.
__device__ inline float exponent(float x, float c, float neg_max, bool exact) {
  return exact ? (x + neg_max) * c : fmaf(x, c, neg_max);
}

}  // namespace fa::kernels
