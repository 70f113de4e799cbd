// Sums whose terms are rounded to 16 bits on the way: in f16, weights and gradients of scores are multiplied by powers
// of two, so that they neither overflow nor lose bits, however large or small dout is. bf16 has f32's exponents, but
// its largest number is below f32's: weights and gradients of scores are halves there, which none that is finite rounds
// to infinity.
#pragma once

#include "backward/mma/block.cuh"
#include "common/lanes.cuh"
#include "common/numbers.cuh"

namespace fa::kernels::backward_mma {

/// The factors of weights or of gradients of scores: a power of two for each row of the sums.
template <class B, bool Scales = kernels::Element<B::dtype>::scales_gradients>
struct GradScale {
  __device__ void apply(typename B::Scores &, typename B::Sums &) {}
  __device__ float inverse(int) const { return B::halves ? 2 : 1; }
};

/// The largest magnitudes of a lane's part of each row.
template <class B>
__device__ inline typename B::Rows largest_of_rows(const typename B::Scores &d) {
  typename B::Rows top;
  top.fill(0);
  d.for_each([&](float x, int r, int) { top[r] = fmaxf(top[r], fabsf(x)); });
  return top;
}

/// Where a row's factor is set, its largest term comes to lie between 2^9 and 2^10; it moves only when one comes to lie
/// above 2^15. A term of 2^-23 of a row's largest one then keeps all its bits.
template <class B>
struct GradScale<B, true> {
  using Rows = typename B::Rows;
  static constexpr float most = 0x1p15f;
  static constexpr int target = 9, least_exponent = -118, largest_exponent = 100, bias = 127, exponent_bit = 23;
  uint32_t exponents = 0x01010101u * (bias + largest_exponent);  // a byte for each row, as floats have them
  static_assert(Rows::rows <= 4);

  /// Multiplies terms by their rows' factors, and the sums by the changes of these factors.
  __device__ void apply(typename B::Scores &d, typename B::Sums &sum) { apply(d, sum, largest_of_rows<B>(d)); }
  __device__ void apply(typename B::Scores &d, typename B::Sums &sum, const typename B::Rows &top) {
    bool moved = false;
    unroll<Rows::rows>([&](int r) { moved |= top[r] * factor(r) > most; });
    if (__any_sync(~0u, moved)) move(top, sum);
    unroll<Rows::rows>([&](int r) { d.scale_row(r, factor(r)); });
  }

  __device__ float factor(int r) const { return __int_as_float((exponents >> 8 * r & 0xff) << exponent_bit); }
  __device__ float inverse(int r) const { return 1 / factor(r); }

 private:

  __device__ void move(const Rows &top, typename B::Sums &sum) {
    unroll<Rows::rows>([&](int r) {
      const float largest = max_over_lanes<4>(top[r]), before = factor(r);
      if (largest * before <= most) return;
      const int exponent = (__float_as_int(largest) >> exponent_bit) - bias;
      const int wanted = min(max(target - exponent, least_exponent), largest_exponent);
      exponents = (exponents & ~(0xffu << 8 * r)) | uint32_t(wanted + bias) << 8 * r;
      sum.scale_row(r, factor(r) / before);
    });
  }
};

/// The dS of a key warp in a step has one scale in addition to those of its queries (RowScales), as dq sums over keys:
/// a power of 2^8, so that key warps mostly have the same, by which the largest term comes to lie between 2^7 and 2^15.
/// A term of 2^-21 of that one keeps all its bits.
template <class B>
__device__ inline float ds_scale(const typename B::Scores &d, const typename B::Rows &top_of_rows) {
  constexpr int target = 14, step = 8, most = 120, bias = 127;
  const auto bits_of_warp = [](float top) { return max_over_warp(__float_as_int(top)); };  // they compare as floats do
  float top = 0;
  unroll<B::Rows::rows>([&](int r) { top = fmaxf(top, top_of_rows[r]); });
  int bits = bits_of_warp(top);
  if (bits == __float_as_int(infinity)) {
    top = 0;
    d.for_each([&](float x, int, int) { top = is_finite(x) ? fmaxf(top, fabsf(x)) : top; });
    bits = bits_of_warp(top);
  }
  const int exponent = (target - ((bits >> 23) - bias)) & -step;
  return __int_as_float((min(max(exponent, -most), most) + bias) << 23);
}

}  // namespace fa::kernels::backward_mma
