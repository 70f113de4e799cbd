// Elementary functions on vectors. Coefficients: minimax fits of the relative error (Lawson iteration in double
// precision).
#pragma once

#include "cpu/element.h"

namespace fa::cpu::FA_ISA {
namespace {

using Vec = Simd::Vec;
constexpr int width = Simd::width;

constexpr float log2_e = 1.44269504088896341f;
constexpr float infinity = __builtin_huge_valf();

template <class T>
constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T larger(T a, T b) {
  return a < b ? b : a;
}

/// 2^x for x <= 128, where it is infinity; 1.7e-7 relative (1.9e-7 where fma rounds twice); exactly 1 at 0; 0 at -inf;
/// NaN at NaN. Below -126 it is at most 2^-125.
inline Vec exp2(Vec x) {
  Vec n, r;
  Simd::split(x, n, r);
  Vec p = Simd::set1(1.326472731307149e-3f);
  p = Simd::fma(p, r, Simd::set1(9.671512991189957e-3f));
  p = Simd::fma(p, r, Simd::set1(5.550733581185341e-2f));
  p = Simd::fma(p, r, Simd::set1(2.4022242426872253e-1f));
  p = Simd::fma(p, r, Simd::set1(6.931470036506653e-1f));
  p = Simd::fma(p, r, Simd::set1(1.0f));
  return Simd::scale(p, n);
}

/// The same to 3e-6, for values that are then rounded to bf16.
inline Vec exp2_for_bf16(Vec x) {
  Vec n, r;
  Simd::split(x, n, r);
  Vec p = Simd::set1(9.582852944e-3f);
  p = Simd::fma(p, r, Simd::set1(5.590642616e-2f));
  p = Simd::fma(p, r, Simd::set1(2.402409911e-1f));
  p = Simd::fma(p, r, Simd::set1(6.931241750e-1f));
  p = Simd::fma(p, r, Simd::set1(1.0f));
  return Simd::scale(p, n);
}

/// tanh(x), 3.4e-7 relative; NaN at NaN.
inline Vec tanh(Vec x) {
  x = Simd::max(Simd::set1(-9.02f), Simd::min(Simd::set1(9.02f), x));
  const Vec y = Simd::mul(x, x);
  Vec p = Simd::set1(1.33190666e-8f);
  p = Simd::fma(p, y, Simd::set1(2.05834764e-5f));
  p = Simd::fma(p, y, Simd::set1(3.49403421e-3f));
  p = Simd::fma(p, y, Simd::set1(1.33797176e-1f));
  p = Simd::fma(p, y, Simd::set1(9.99999979e-1f));
  Vec q = Simd::set1(7.76201698e-7f);
  q = Simd::fma(q, y, Simd::set1(3.28309231e-4f));
  q = Simd::fma(q, y, Simd::set1(2.58710718e-2f));
  q = Simd::fma(q, y, Simd::set1(4.67130329e-1f));
  q = Simd::fma(q, y, Simd::set1(1.0f));
  return Simd::div(Simd::mul(x, p), q);
}

/// ln x for normal x, 1.3e-7 of the larger of 1 and the result; exactly 0 at 1. x = 2^n f, and ln f = 2 artanh((f - 1) /
/// (f + 1)).
inline Vec log(Vec x) {
  constexpr int32_t sqrt_half = 0x3f3504f3;  // f is from here to twice that
  alignas(64) float fraction[width], exponent[width];
  Simd::store(fraction, x);
  for (int i = 0; i < width; i++) {
    const auto above = static_cast<int32_t>(float_to_bits(fraction[i])) - sqrt_half;
    exponent[i] = static_cast<float>(above >> 23);
    fraction[i] = bits_to_float(static_cast<uint32_t>((above & 0x7fffff) + sqrt_half));
  }
  const Vec one = Simd::set1(1.0f), f = Simd::load(fraction);
  const Vec t = Simd::div(Simd::sub(f, one), Simd::add(f, one)), y = Simd::mul(t, t);
  Vec p = Simd::set1(2.0f / 9);
  p = Simd::fma(p, y, Simd::set1(2.0f / 7));
  p = Simd::fma(p, y, Simd::set1(2.0f / 5));
  p = Simd::fma(p, y, Simd::set1(2.0f / 3));
  p = Simd::fma(p, y, Simd::set1(2.0f));
  return Simd::fma(Simd::load(exponent), Simd::set1(0.693147181f), Simd::mul(p, t));
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
