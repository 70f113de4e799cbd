// The end of a block whose warps have the same rows: what each has found in its keys becomes one result.
#pragma once

#include "common/finish.cuh"
#include "mma/softmax.cuh"

namespace fa::kernels::mma {

/// A lane's numbers of one warp, in shared memory: minus_m, l, O.
template <class B>
class Found {
 public:
  static constexpr int numbers = 4 + 4 * B::out_blocks;
  static constexpr int bytes = numbers * 32 * int(sizeof(float));

  __device__ Found(uint32_t memory, int warp) : at_(memory + warp * bytes + threadIdx.x % 32 * int(sizeof(float))) {}
  __device__ void set(int n, float x) const { st_shared_f32(at_ + n * 128, x); }
  __device__ float get(int n) const { return ld_shared_f32(at_ + n * 128); }

 private:
  uint32_t at_;
};

/// l = sum_w e^(m_w - m) l_w, O = sum_w e^(m_w - m) O_w with m = max_w m_w, in the first warp's registers, by way of
/// the ring of tiles, which nobody uses any more.
template <class B>
__device__ inline void join_warps(Softmax<B> &state, typename B::Out &o, uint32_t ring) {
  static_assert(B::row_blocks == 1 && (B::shape.warps - 1) * Found<B>::bytes <= B::stages * B::KeyTile::bytes);
  const int warp = threadIdx.x / 32;
  if (warp > 0) {
    const Found<B> mine(ring, warp - 1);
#pragma unroll
    for (int h = 0; h < 2; h++) mine.set(h, state.minus_m[0][h]), mine.set(2 + h, state.l[0][h]);
#pragma unroll
    for (int j = 0; j < B::out_blocks; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) mine.set(4 + 4 * j + e, o[0][j].x[e]);
  }
  __syncthreads();
#pragma unroll 1
  for (int other = 1; warp == 0 && other < B::shape.warps; other++) {
    const Found<B> its(ring, other - 1);
    float a[2], b[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const float before = state.minus_m[0][h], minus_m = fminf(before, its.get(h));
      a[h] = ex2_approx_ftz((minus_m - before) * log2_e), b[h] = ex2_approx_ftz((minus_m - its.get(h)) * log2_e);
      state.minus_m[0][h] = minus_m;
      state.l[0][h] = state.l[0][h] * a[h] + its.get(2 + h) * b[h];
    }
#pragma unroll
    for (int j = 0; j < B::out_blocks; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) o[0][j].x[e] = o[0][j].x[e] * a[e / 2] + its.get(4 + 4 * j + e) * b[e / 2];
  }
}

}  // namespace fa::kernels::mma
