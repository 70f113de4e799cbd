// 2^f for f from -1/2 to 1/2 as a polynomial that is exactly 1 at 0, with the least largest relative error (Lawson's
// iteration, coefficients rounded to f32). Compiled by the host's compiler and by nvcc alike.
#pragma once

#include "common/params.h"

namespace fa::kernels {

/// Coefficients of f, f^2, ..., and a bound of the relative error where they are used by fused multiply-adds in f32.
template <int Degree>
struct Exp2;
template <>
struct Exp2<3> {
  static constexpr float error = 1.02e-4f;
  static constexpr float coefficient(int power) {
    return power == 1 ? 0x1.62f5fap-1f : power == 2 ? 0x1.f00c4ep-3f : 0x1.c2a218p-5f;
  }
};
template <>
struct Exp2<4> {
  static constexpr float error = 2.9e-6f;
  static constexpr float coefficient(int power) {
    return power == 1 ? 0x1.62e12cp-1f : power == 2 ? 0x1.ec0378p-3f : power == 3 ? 0x1.c9fc46p-5f : 0x1.3a02ccp-7f;
  }
};

/// The degree whose error is smaller than that of rounding weights to the type.
constexpr int exp2_degree(Dtype type) {
  return type == f16 ? 4 : 3;
}

/// Adding it rounds a number between -2^21 and 2^21 to a whole one; the sum's low bits are then that number plus the
/// bias of an exponent.
constexpr float rounder = 0x1.8p23f + 127;

}  // namespace fa::kernels
