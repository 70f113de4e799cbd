// The layout of the f32 sums of dq, to which blocks of keys add: tiles of 16 rows by 8 columns, one after another, each
// in the order of an Accumulator's lanes, so that a warp adds to consecutive addresses.
#pragma once

#include "collective/backward_tile_scheduler.cuh"
#include "common/ptx.cuh"
#include "common/unroll.cuh"

namespace fa::kernels {

/// SM 90 adds four numbers of a lane at once, so these are neighbours there; others one, so that lanes are.
constexpr bool adds_quads = this_arch.number >= 90;

constexpr int block_rows = 16, block_columns = 8, block_sums = block_rows * block_columns;

/// The place of a lane's number e in its block of sums.
__device__ inline int sum_place(int lane, int e) {
  return adds_quads ? lane * 4 + e : e * 32 + lane;
}

/// The place of an element of dq in BackwardParams::dq_accum, from row 0 of its sequence and head on.
__device__ inline int64_t dq_place(const BackwardParams &p, int row, int column) {
  const int lane = row % 8 * 4 + column % block_columns / 2, e = row / 8 % 2 * 2 + column % 2;
  return int64_t(row / block_rows) * block_rows * p.dq_columns + column / block_columns * block_sums +
         sum_place(lane, e);
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

}  // namespace fa::kernels
