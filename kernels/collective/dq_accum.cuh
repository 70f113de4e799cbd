// The layout of the f32 sums of dq, to which blocks of keys add: tiles of 16 rows by 8 columns, one after another, each
// in the order of an Accumulator's lanes, so that a warp adds to consecutive addresses.
#pragma once

#include "collective/backward_tile_scheduler.cuh"
#include "common/ptx.cuh"
#include "common/quad.cuh"
#include "common/unroll.cuh"

namespace fa::kernels {

/// SM 90 adds four numbers of a lane at once, so these are neighbours there; others one, so that lanes are.
constexpr bool adds_quads = this_arch.number >= 90;

constexpr int block_rows = 16, block_columns = 8, block_sums = block_rows * block_columns;

/// The offset of a lane's number e in its block of sums.
__device__ inline int dq_offset(int lane, int e) {
  return adds_quads ? lane * 4 + e : e * 32 + lane;
}

/// Adds a lane's numbers of a block; sums: where its number 0 is.
__device__ inline void add_block(float *sums, const Accumulator &x) {
  if constexpr (adds_quads) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(sums), "f"(x.x[0]), "f"(x.x[1]),
                 "f"(x.x[2]), "f"(x.x[3])
                 : "memory");
  } else {
    unroll<4>([&](int e) {
      asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(sums + e * 32), "f"(x.x[e]) : "memory");
    });
  }
}

/// Eight sums of a block, those of lanes 2 n and 2 n + 1: four columns of row n / 2, and of the eighth row after it.
__device__ inline void load_block(Quad (&quad)[2], const float *sums, int n) {
  if constexpr (adds_quads) {
    unroll<2>([&](int lane) {
      const float4 x = *reinterpret_cast<const float4 *>(sums + dq_offset(2 * n + lane, 0));
      quad[0].x[2 * lane] = x.x, quad[0].x[2 * lane + 1] = x.y;
      quad[1].x[2 * lane] = x.z, quad[1].x[2 * lane + 1] = x.w;
    });
  } else {
    unroll<4>([&](int e) {
      const float2 x = *reinterpret_cast<const float2 *>(sums + dq_offset(2 * n, e));
      quad[e / 2].x[e % 2] = x.x, quad[e / 2].x[2 + e % 2] = x.y;
    });
  }
}

}  // namespace fa::kernels
