// The rescaling policy of the online softmax: when a row's running maximum moves, and the exponents of its weights.
// Where m is set, a row's largest weight becomes 2^max_offset. m moves only when a weight exceeds that by a factor of
// 2^rescale_threshold (wgmma, and tcgen05 in bf16, have separate bounds): larger weights lose no precision, and l and
// O are rescaled rarely. Element has both.
#pragma once

#include "common/element.h"
#include "common/numbers.cuh"

namespace fa::kernels {

/// Above this magnitude of m, the product c x is rounded so coarsely that c x - m is not near 0 for the largest score.
constexpr float exact_score_threshold = 0x1p22f;

/// The exponent of a weight: c (x - m) in an exact row, which is 0 where x is m, however large both are; else c x - m,
/// a single FMA.
__device__ inline float exponent(float x, float c, float neg_max, bool exact) {
  return exact ? (x + neg_max) * c : fmaf(x, c, neg_max);
}

}  // namespace fa::kernels
