// Four neighbouring columns of a row in several splits: what a thread of the combine kernel loads and adds up.
#pragma once

#include "combine/tiles.h"
#include "common/quad.cuh"

namespace fa::kernels::combine {

/// A row's columns in `splits` splits, step floats apart, all asked for at once; 0 for further splits and for columns
/// behind the last of `columns`.
__device__ inline void load_quads(Quad (&quads)[depth], const float *from, int64_t step, int splits, int columns) {
  if (reinterpret_cast<uintptr_t>(from) % 16 == 0 && step % 4 == 0 && columns >= 4) {
    unroll<depth>([&](int i) {
      float4 x = {};
      if (i < splits) x = *reinterpret_cast<const float4 *>(from + i * step);
      quads[i] = {{x.x, x.y, x.z, x.w}};
    });
  } else {
    unroll<depth>(
        [&](int i) { unroll<4>([&](int c) { quads[i].x[c] = i < splits && c < columns ? from[i * step + c] : 0; }); });
  }
}

/// Adds sum_i weights[i] quads[i], as a binary tree.
__device__ inline void add_weighted(Quad &sum, const float *weights, const Quad (&quads)[depth]) {
  static_assert(depth == 8);
  const float4 w = *reinterpret_cast<const float4 *>(weights), u = *reinterpret_cast<const float4 *>(weights + 4);
  unroll<4>([&](int c) {
    const float a = fmaf(w.y, quads[1].x[c], w.x * quads[0].x[c]), b = fmaf(w.w, quads[3].x[c], w.z * quads[2].x[c]);
    const float d = fmaf(u.y, quads[5].x[c], u.x * quads[4].x[c]), e = fmaf(u.w, quads[7].x[c], u.z * quads[6].x[c]);
    sum.x[c] += (a + b) + (d + e);
  });
}

}  // namespace fa::kernels::combine
