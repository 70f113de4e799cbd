// exp2, tanh and log of every ISA against double precision, over their ranges, within the errors that they promise.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cpu/features.h"
#include "cpu/math_isa.h"

namespace test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The error that exp2 promises, and that where Simd::fma rounds twice.
constexpr double fused = 1.7e-7, unfused = 1.9e-7;

struct Isa {
  const Math *math;
  const char *(*lacks)();
  double exp2_error;
};

const char *nothing() {
  return nullptr;
}

const Isa isas[] = {
    {&math_generic, nothing, unfused},
#if defined(__x86_64__)
    {&math_avx2, fa::cpu::lacks_avx2, fused},
    {&math_avx512, fa::cpu::lacks_avx512, fused},
    {&math_avx512_model, nothing, fused},
#elif defined(__aarch64__)
    {&math_neon, nothing, fused},
#endif
};

/// Every step-th float from low to high, which have one sign, and both ends.
void add_floats(std::vector<float> *to, float low, float high, uint32_t step) {
  const uint32_t first = std::min(std::bit_cast<uint32_t>(low), std::bit_cast<uint32_t>(high));
  const uint32_t last = std::max(std::bit_cast<uint32_t>(low), std::bit_cast<uint32_t>(high));
  for (uint64_t bits = first; bits <= last; bits += step) to->push_back(std::bit_cast<float>(uint32_t(bits)));
  to->push_back(low);
  to->push_back(high);
}

using Function = void (*)(const float *, float *, int64_t);

std::vector<float> results(const Math &math, Function Math::*function, std::vector<float> x) {
  x.resize((x.size() + size_t(math.width) - 1) / size_t(math.width) * size_t(math.width));
  std::vector<float> y(x.size());
  (math.*function)(x.data(), y.data(), int64_t(x.size()));
  return y;
}

float result(const Math &math, Function Math::*function, float x) {
  return results(math, function, {x})[0];
}

/// The largest relative error, and where.
struct Worst {
  double error = 0;
  float x = 0;
};

template <class Exact>
Worst worst_of(const Math &math, Function Math::*function, const std::vector<float> &x, Exact exact) {
  const std::vector<float> y = results(math, function, x);
  Worst worst;
  for (size_t i = 0; i < x.size(); ++i) {
    const double right = exact(double(x[i]));
    const double error = std::fabs(double(y[i]) - right) / std::fabs(right);
    if (!(error <= worst.error)) worst = {error, x[i]};
  }
  return worst;
}

class MathOf : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (const char *lacks = GetParam().lacks()) GTEST_SKIP() << lacks;
  }
  const Math &math = *GetParam().math;
};

/// Over all of its range, within its error.
void check_exp2(const Math &math, Function Math::*function, double bound) {
  std::vector<float> x;
  add_floats(&x, 0x1p-30F, 0x1.fffffep6F, 1009);
  add_floats(&x, -0x1p-30F, -126, 1009);
  for (int n = -126; n <= 127; ++n) {  // all of the polynomial's interval, and its ends
    add_floats(&x, float(n) + 0.499F, float(n) + 0.501F, 61);
    if (n % 16 == 0)
      for (int i = -5000; i <= 5000; ++i) x.push_back(std::max(float(n) + float(i) * 1e-4F, -126.0F));
  }
  const Worst worst = worst_of(math, function, x, [](double a) { return std::exp2(a); });
  std::printf("%s: exp2 is off by %.3g at %.9g of %zu numbers\n", math.isa, worst.error, double(worst.x), x.size());
  EXPECT_LE(worst.error, bound) << "at " << worst.x;
}

void check_special_exp2(const Math &math, Function Math::*function) {
  EXPECT_EQ(result(math, function, 0.0F), 1.0F);
  EXPECT_EQ(result(math, function, -0.0F), 1.0F);
  EXPECT_EQ(result(math, function, -infinity), 0.0F);
  EXPECT_EQ(result(math, function, 128.0F), infinity);
  EXPECT_TRUE(std::isnan(result(math, function, std::nanf(""))));
  for (const float x : {-126.01F, -126.5F, -127.0F, -130.0F, -1e4F, -3e38F}) {
    const float y = result(math, function, x);
    EXPECT_TRUE(y >= 0 && y <= 0x1p-125F) << x << " gives " << y;
  }
}

TEST_P(MathOf, Exp2) {
  check_exp2(math, &Math::exp2, GetParam().exp2_error);
}

TEST_P(MathOf, Exp2OfWhatIsSpecial) {
  check_special_exp2(math, &Math::exp2);
}

TEST_P(MathOf, Exp2ForBf16) {
  check_exp2(math, &Math::exp2_for_bf16, 3e-6);
}

TEST_P(MathOf, Exp2ForBf16OfWhatIsSpecial) {
  check_special_exp2(math, &Math::exp2_for_bf16);
}

TEST_P(MathOf, Tanh) {
  std::vector<float> x;
  add_floats(&x, 0x1p-100F, 30, 997);
  add_floats(&x, -0x1p-100F, -30, 997);
  add_floats(&x, 0.01F, 9.5F, 53);
  const Worst worst = worst_of(math, &Math::tanh, x, [](double a) { return std::tanh(a); });
  std::printf("%s: tanh is off by %.3g at %.9g of %zu numbers\n", math.isa, worst.error, double(worst.x), x.size());
  EXPECT_LE(worst.error, 3.4e-7) << "at " << worst.x;
}

TEST_P(MathOf, TanhOfWhatIsSpecial) {
  EXPECT_EQ(result(math, &Math::tanh, 0.0F), 0.0F);
  EXPECT_TRUE(std::isnan(result(math, &Math::tanh, std::nanf(""))));
  for (const float x : {20.0F, 1e6F, 3e38F, infinity}) {
    EXPECT_NEAR(result(math, &Math::tanh, x), 1, 3.4e-7) << x;
    EXPECT_NEAR(result(math, &Math::tanh, -x), -1, 3.4e-7) << x;
  }
}

TEST_P(MathOf, Log) {
  std::vector<float> x;
  add_floats(&x, 0x1p-126F, 0x1p127F, 997);
  add_floats(&x, 0.5F, 40, 53);
  const std::vector<float> y = results(math, &Math::log, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double right = std::log(double(x[i])),
                 error = std::fabs(double(y[i]) - right) / std::max(1.0, std::fabs(right));
    if (!(error <= worst)) worst = error;
  }
  std::printf("%s: log is off by %.3g\n", math.isa, worst);
  EXPECT_LE(worst, 1.3e-7);
  EXPECT_EQ(result(math, &Math::log, 1.0F), 0.0F);
}

/// Rounded as a division is, where that is most difficult: numbers whose quotients are close to the middle between two
/// f32.
TEST_P(MathOf, Quotient) {
  std::mt19937_64 random(1);
  const auto bits = [&](int n) { return static_cast<uint32_t>(random() >> (64 - n)); };
  const auto number = [&](uint32_t fraction, int exponent) {
    return std::ldexp(float(0x800000 | fraction), exponent - 23);
  };
  for (int round = 0; round < 20000; ++round) {
    const uint32_t ends = round % 4 == 0 ? 0x7fff00 : 0;  // scales just below a power of two
    const float scale = number(bits(23) | ends, int(bits(6)) - 32);
    float x[16], y[16];
    for (float &one : x) {
      const double middle = (double(0x800000 | bits(23)) + 0.5) * 0x1p-23;
      one = float(std::ldexp(middle * double(scale), int(bits(5)) - 16)) * (bits(1) ? 1.0F : -1.0F);
    }
    math.quotient(x, scale, y, 16);
    for (int i = 0; i < 16; ++i) ASSERT_EQ(y[i], x[i] / scale) << x[i] << " / " << scale;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, MathOf, testing::ValuesIn(isas),
                         [](const auto &one) { return std::string(one.param.math->isa); });

}  // namespace
}  // namespace test
