// Four neighbouring columns of a row in several splits, which a thread of the combine kernel loads and adds up.
#pragma once

#include "common/ptx.cuh"
#include "common/quad.cuh"
#include "forward/combine/tiles.h"

namespace fa::kernels::combine {

/// A row's columns in `splits` splits, step floats apart, all asked for at once; 0 for further splits and for columns
/// behind the last of `columns`.
__device__ inline void load_quads(Quad (&quads)[depth], const float *from, int64_t step, int splits, int columns) {
  if (reinterpret_cast<uintptr_t>(from) % 16 == 0 && step % 4 == 0 && columns >= 4) {
    unroll<depth>([&](int i) {
      quads[i] = {};
      ld_global_v4_f32_if(i < splits, quads[i].x, from);
      from += step;
    });
  } else {
    unroll<depth>(
        [&](int i) { unroll<4>([&](int c) { quads[i].x[c] = i < splits && c < columns ? from[i * step + c] : 0; }); });
  }
}

/// Adds sum_i weight_i quads[i], as a binary tree, where weight_i is that of a group's thread i.
__device__ inline void add_weighted(Quad &sum, float weight, const Quad (&quads)[depth]) {
  static_assert(depth == 8);
  float w[depth];
  unroll<depth>([&](int i) { w[i] = __shfl_sync(~0u, weight, i, depth); });
  unroll<4>([&](int c) {
    const auto pair = [&](int i) { return fmaf(w[i + 1], quads[i + 1].x[c], w[i] * quads[i].x[c]); };
    sum.x[c] += (pair(0) + pair(2)) + (pair(4) + pair(6));
  });
}

}  // namespace fa::kernels::combine
