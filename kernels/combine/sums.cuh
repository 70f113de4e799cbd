// What is summed, or the largest, over neighbouring threads of any power of two, always in the same order: a binary
// tree over the threads' numbers. By way of shared memory where they are of several warps.
#pragma once

#include "combine/values.cuh"

namespace fa::kernels::combine {

/// f over the numbers of `count` threads, in each of them. By all threads of a block, each time with an of_warps of its
/// own.
template <class F>
__device__ inline float over_threads(float x, int count, float *of_warps, F f) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = count / 32;
  for (int d = 1; d < 32 && d < count; d *= 2) x = f(x, __shfl_xor_sync(~0u, x, d));
  if (warps <= 1) return x;
  if (lane == 0) of_warps[warp] = x;
  __syncthreads();
  x = of_warps[(warp & -warps) + (lane & (warps - 1))];
  for (int d = 1; d < warps; d *= 2) x = f(x, __shfl_xor_sync(~0u, x, d));
  return x;
}

/// The quads of lanes `from` apart, from each other, added.
__device__ inline void add_over_lanes(Quad &quad, int from) {
  unroll<4>([&](int c) { quad.x[c] += __shfl_xor_sync(~0u, quad.x[c], from); });
}

/// The sum over `groups` groups of `quads` threads, in the first of them.
__device__ inline Quad sum_over_groups(Quad sum, int groups, Quad (*of_warps)[quads]) {
  constexpr int groups_of_warp = 32 / quads;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = groups / groups_of_warp;
  for (int d = 1; d < groups_of_warp && d < groups; d *= 2) add_over_lanes(sum, d * quads);
  if (warps <= 1) return sum;
  if (lane < quads) of_warps[warp][lane] = sum;
  __syncthreads();
  // A group of the first warp adds those of two warps.
  static_assert(threads / 32 <= 2 * groups_of_warp);
  const int group = lane / quads;
  sum = {};
  if (2 * group < warps) {
    const Quad &a = of_warps[(warp & -warps) + 2 * group][lane % quads], &b = (&a)[quads];
    unroll<4>([&](int c) { sum.x[c] = a.x[c] + b.x[c]; });
  }
  for (int d = 1; d < groups_of_warp; d *= 2) add_over_lanes(sum, d * quads);
  return sum;
}

}  // namespace fa::kernels::combine
