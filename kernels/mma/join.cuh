// The end of a block whose warps have the same rows: the sums of each over its keys become one result.
#pragma once

#include "common/finish.cuh"
#include "mma/softmax.cuh"

namespace fa::kernels::mma {

/// A lane's part of one warp's sums, in shared memory: minus_m, l, O.
template <class B>
class WarpSums {
 public:
  static constexpr int numbers = 2 * B::Rows::rows + B::Out::rows * B::dim / 4;
  static constexpr int bytes = numbers * 32 * int(sizeof(float));

  __device__ WarpSums(uint32_t memory, int warp) : at_(memory + warp * bytes + threadIdx.x % 32 * int(sizeof(float))) {}
  __device__ void set(int n, float x) const { st_shared_f32(at_ + n * 128, x); }
  __device__ float get(int n) const { return ld_shared_f32(at_ + n * 128); }

 private:
  uint32_t at_;
};

/// l = sum_w e^(m_w - m) l_w, O = sum_w e^(m_w - m) O_w with m = max_w m_w, in the first warp's registers, by way of
/// the ring of tiles, which nobody uses any more.
template <class B>
__device__ inline void join_warps(OnlineSoftmax<B> &softmax, typename B::Out &o, uint32_t ring) {
  static_assert((B::shape.warps - 1) * WarpSums<B>::bytes <= B::stages * B::KeyTile::bytes);
  constexpr int rows = B::Rows::rows;
  const int warp = threadIdx.x / 32;
  if (warp > 0) {
    const WarpSums<B> own(ring, warp - 1);
    int n = 0;
    unroll<rows>([&](int r) { own.set(r, softmax.minus_m[r]), own.set(rows + r, softmax.l[r]); });
    o.for_each([&](float x, int, int) { own.set(2 * rows + n++, x); });
  }
  __syncthreads();
#pragma unroll 1
  for (int other = 1; warp == 0 && other < B::shape.warps; other++) {
    const WarpSums<B> sums(ring, other - 1);
    typename B::Rows a, b;
    int n = 0;
    unroll<rows>([&](int r) {
      const float before = softmax.minus_m[r], minus_m = fminf(before, sums.get(r));
      a[r] = ex2_approx_ftz((minus_m - before) * log2_e), b[r] = ex2_approx_ftz((minus_m - sums.get(r)) * log2_e);
      softmax.minus_m[r] = minus_m;
      softmax.l[r] = softmax.l[r] * a[r] + sums.get(rows + r) * b[r];
    });
    o.for_each([&](float &x, int r, int) { x = x * a[r] + sums.get(2 * rows + n++) * b[r]; });
  }
}

}  // namespace fa::kernels::mma
