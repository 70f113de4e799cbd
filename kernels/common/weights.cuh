// The weights of a softmax that goes along with the tiles: how far they may rise above 1, and their exponents.
#pragma once

#include "common/numbers.cuh"
#include "common/params.h"

namespace fa::kernels {

/// Where m is set, a row's largest weight becomes 2^lift; it moves only when a weight rises above that by 2^slack
/// (wgmma, and tcgen05 in bf16, have bounds of their own): larger ones cost no precision, and sums need not be scaled
/// anew. In f16 a weight of 2^-24 of the largest then keeps all its bits.
constexpr float lift(Dtype type) {
  return type == f16 ? 10 : 0;
}
constexpr float slack(Dtype type) {
  return type == f16 ? 5 : 8;
}
static_assert(lift(f16) + slack(f16) <= 15);

/// From here on c x loses so many bits to its size that c x - m, where x is the largest score, is not near 0.
constexpr float far = 0x1p22f;

/// The exponent of a weight: c (x - m) of a row that is exact, which is 0 where x is m, however large both are; else
/// c x - m, which is one instruction less.
__device__ inline float exponent(float x, float c, float minus_m, bool exact) {
  return exact ? (x + minus_m) * c : fmaf(x, c, minus_m);
}

}  // namespace fa::kernels
