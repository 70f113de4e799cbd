// 2^f for f from -1/2 to 1/2 as a polynomial that is exactly 1 at 0, with the least largest relative error (Lawson's
// iteration, coefficients rounded to f32). Compiled by the host's compiler and by nvcc alike.
#pragma once

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

/// Exponents from -127 to 129 as numbers from 0 to 1, to which a multiply-add saturates at no cost: (x + 127) / 256.
constexpr float exponent_range = 256, least_exponent = -127;

/// Adding it rounds such a number to a whole exponent; the sum's low bits are then that exponent, of nine bits.
constexpr float rounder = 1.5f * 0x1p23f / exponent_range + least_exponent / exponent_range;

}  // namespace fa::kernels
