// Softcap and ALiBi on raw scores, in loops with deferred scaling (score_scale.h).
#pragma once

#include "collective/tile_scheduler.cuh"
#include "common/numbers.cuh"
#include "common/ptx.cuh"
#include "common/score_scale.h"

namespace fa::kernels {

/// cap tanh y = cap - 2 cap / (1 + e^2y) with y = scale s / cap: x = -1 / (1 + e^2y) takes the place of a product s, of
/// which it is an increasing function. steepness: 2 log2 e scale / cap.
__device__ inline float capped_product(float s, float steepness) {
  return rcp_approx_ftz(-1 - ex2_approx_ftz(s * steepness));
}
template <class Scores>
__device__ inline void cap_products(Scores &s, float steepness) {
  s.for_each([=](float &x, int, int) { x = capped_product(x, steepness); });
}
__device__ inline float softcap_steepness(const Params &p) {
  return p.scale * p.inverse_softcap * (2 * log2_e);
}

/// x - slope |i - j|, in any unit; distance: i - j.
__device__ inline float add_alibi(float x, float slope, float distance) {
  return fmaf(-slope, fabsf(distance), x);
}
__device__ inline float alibi_slope(const Params &p, const Sequence &s, int32_t head) {
  return *reinterpret_cast<const float *>(p.alibi_slopes.data + s.index * p.alibi_slopes.stride[0] +
                                          head * p.alibi_slopes.stride[1]);
}

}  // namespace fa::kernels
