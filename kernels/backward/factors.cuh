// Sums whose terms are rounded to 16 bits on the way: in f16, weights and gradients of scores are multiplied by powers
// of two, so that they neither overflow nor lose bits, however large or small dout is. bf16 has f32's exponents.
#pragma once

#include "backward/block.cuh"
#include "common/lanes.cuh"

namespace fa::kernels::backward {

/// The factors of weights or of gradients of scores: a power of two for each row of the sums.
template <class B, Dtype = B::dtype>
struct Factors {
  __device__ void apply(typename B::Scores &, typename B::Sums &) {}
  __device__ float inverse(int) const { return 1; }
};

/// Where a row's factor is set, its largest term comes to lie between 2^9 and 2^10; it moves only when one comes to lie
/// above 2^15. A term of 2^-23 of a row's largest one then keeps all its bits.
template <class B>
struct Factors<B, f16> {
  using Rows = typename B::Rows;
  static constexpr float most = 0x1p15f;
  static constexpr int target = 9, least_exponent = -100, largest_exponent = 100, bias = 127;
  Rows factor;

  __device__ Factors() { factor.fill(0x1p100f); }

  /// Multiplies terms by their rows' factors, and the sums by what those have changed by.
  __device__ void apply(typename B::Scores &d, typename B::Sums &sum) {
    Rows top;
    top.fill(0);
    d.for_each([&](float x, int r, int) { top[r] = fmaxf(top[r], fabsf(x)); });
    bool moved = false;
    unroll<Rows::rows>([&](int r) { moved |= top[r] * factor[r] > most; });
    if (__any_sync(~0u, moved)) move(top, sum);
    d.scale_rows(factor);
  }

  __device__ float inverse(int r) const { return 1 / factor[r]; }

 private:
  __device__ void move(const Rows &top, typename B::Sums &sum) {
    unroll<Rows::rows>([&](int r) {
      const float largest = max_over_lanes<4>(top[r]);
      const int exponent = (__float_as_int(largest) >> 23) - bias;
      const int wanted = min(max(target - exponent, least_exponent), largest_exponent);
      const float now = largest * factor[r] > most ? __int_as_float((wanted + bias) << 23) : factor[r];
      sum.scale_row(r, now / factor[r]);
      factor[r] = now;
    });
  }
};

}  // namespace fa::kernels::backward
