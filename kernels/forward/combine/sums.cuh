// Reductions over neighbouring threads of any power of two, always in the same order: a binary
// tree over the threads' numbers. By way of shared memory where they are of several warps.
#pragma once

#include "common/lanes.cuh"
#include "forward/combine/values.cuh"

namespace fa::kernels::combine {

/// The sums of a group of `quads` threads: of the weights, and each thread's columns.
struct Sums {
  float weights = 0;
  Quad values;

  __device__ void add(const Sums &other) {
    weights += other.weights;
    unroll<4>([&](int c) { values.x[c] += other.values.x[c]; });
  }

  /// The sums of the lane that is `from` lanes apart.
  __device__ Sums of_other(int from) const {
    Sums other;
    other.weights = __shfl_xor_sync(~0u, weights, from);
    unroll<4>([&](int c) { other.values.x[c] = __shfl_xor_sync(~0u, values.x[c], from); });
    return other;
  }
};

/// The largest number of a warp; NaN if one is. As whole numbers in the order of the floats, which SM 80 compares at
/// once.
__device__ inline float max_over_warp(float x) {
  const int bits = __float_as_int(x), most = kernels::max_over_warp(bits < 0 ? bits ^ 0x7fffffff : bits);
  return __int_as_float(most < 0 ? most ^ 0x7fffffff : most);
}

/// The largest number of `count` threads, in each of them. By all threads of a block.
__device__ inline float max_over_threads(float x, int count, float *of_warps) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = count / 32;
  if (warps == 0) {
    unroll<4>([&](int i) {
      const float other = __shfl_xor_sync(~0u, x, 1 << i);
      x = fmaxf(x, 1 << i < count ? other : x);
    });
    return x;
  }
  x = max_over_warp(x);
  if (warps == 1) return x;
  if (lane == 0) of_warps[warp] = x;
  __syncthreads();
  return max_over_warp(of_warps[(warp & -warps) + (lane & (warps - 1))]);
}

/// The sums of `groups` groups of threads, in the first of them. By all threads of a block.
__device__ inline Sums sum_over_groups(Sums sums, int groups, Quad (*values_of_warps)[quads], float *weights_of_warps) {
  constexpr int groups_of_warp = 32 / quads;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = groups / groups_of_warp;
  if (groups > 1) sums.add(sums.of_other(quads));
  if (groups > 2) sums.add(sums.of_other(2 * quads));
  static_assert(groups_of_warp == 4);
  if (warps <= 1) return sums;
  if (lane < quads) values_of_warps[warp][lane] = sums.values;
  if (lane == 0) weights_of_warps[warp] = sums.weights;
  __syncthreads();
  // Each group of the first warp adds those of two warps.
  static_assert(threads / 32 <= 2 * groups_of_warp);
  const int group = lane / quads, first = (warp & -warps) + 2 * group;
  sums = {};
  if (2 * group < warps) {
    unroll<2>([&](int i) { sums.add({weights_of_warps[first + i], values_of_warps[first + i][lane % quads]}); });
  }
  sums.add(sums.of_other(quads));
  sums.add(sums.of_other(2 * quads));
  return sums;
}

}  // namespace fa::kernels::combine
