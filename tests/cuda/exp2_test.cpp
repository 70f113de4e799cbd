// The polynomials in place of some exponentials: their error, which each states.
#include "common/exp2.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/element.h"

namespace {

using fa::kernels::Exp2;

/// As the kernels evaluate it.
template <int Degree>
float polynomial(float f) {
  float p = Exp2<Degree>::coefficient(Degree);
  for (int i = Degree - 1; i > 0; i--) p = std::fma(p, f, Exp2<Degree>::coefficient(i));
  return std::fma(p, f, 1.0f);
}

template <int Degree>
double largest_error() {
  double largest = 0;
  for (int i = -(1 << 20); i <= 1 << 20; i++) {
    const float f = static_cast<float>(std::ldexp(i, -21));
    largest = std::max(largest, std::abs(polynomial<Degree>(f) / std::exp2(static_cast<double>(f)) - 1));
  }
  return largest;
}

/// A bound, and a tight one; half of the change by rounding a weight to the type.
template <int Degree>
void expect_bound(double roundoff) {
  const double error = largest_error<Degree>();
  EXPECT_LE(error, double{Exp2<Degree>::error});
  EXPECT_GE(error, 0.95 * Exp2<Degree>::error);
  EXPECT_LE(error, roundoff / 2);
  EXPECT_EQ(polynomial<Degree>(0), 1);
}

TEST(Exp2, ErrorsAreWithinTheirBounds) {
  expect_bound<fa::kernels::Element<fa::kernels::bf16>::exp2_degree>(0x1p-9);
  expect_bound<fa::kernels::Element<fa::kernels::f16>::exp2_degree>(0x1p-12);
}

/// The sum's last bits are a whole exponent, which a shift and an integer sum add to a number's.
TEST(Exp2, RoundsToExponents) {
  using namespace fa::kernels;
  for (const float x : {-127.f, -126.25f, -3.5f, -0.25f, 0.f, 0.75f, 15.f, 127.f}) {
    const float in_range = (x - least_exponent) / exponent_range;
    const float rounded = in_range + rounder;
    const float whole = (rounded - rounder) * exponent_range + least_exponent;
    EXPECT_LE(std::abs(x - whole), 0.5f);
    EXPECT_EQ(whole, std::nearbyint(whole));
    const auto bits = [](float number) { return __builtin_bit_cast(uint32_t, number); };
    const float power = __builtin_bit_cast(float, bits(1) + (bits(rounded) << 23));
    EXPECT_EQ(power, whole == -127 ? 0 : std::exp2(whole)) << x;
  }
}

}  // namespace
