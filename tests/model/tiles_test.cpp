// model.*: the model of AMX against AMX itself, where the machine has that.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cpu/features.h"
#include "model/amx_model.h"
#include "model/hardware512.h"
#include "reference/random.h"

namespace test {
using namespace reference;
namespace {

constexpr int words = 16 * 16;

class ModelTiles : public testing::Test {
 protected:
  void SetUp() override {
    if (const char *missing = fa::cpu::lacks_amx_bf16()) GTEST_SKIP() << missing;
  }

  /// A bf16 with an exponent from `least` on, of `exponents` consecutive ones.
  uint32_t bf16(int64_t least, int64_t exponents) {
    const auto any = static_cast<uint32_t>(random_.next());
    return (any & 0x807f) | static_cast<uint32_t>(random_.between(least, least + exponents - 1)) << 7;
  }

  void check(int64_t least, int64_t exponents) {
    std::array<uint32_t, words> a, b;
    std::array<float, words> c, machine, model;
    for (int i = 0; i < words; i++) {
      a[i] = bf16(least, exponents) << 16 | bf16(least, exponents);
      b[i] = bf16(least, exponents) << 16 | bf16(least, exponents);
      // As large as products are.
      const int64_t product = 2 * least + exponents - 127;
      c[i] = std::bit_cast<float>(bf16(std::clamp<int64_t>(product, 0, 254), 2) << 16 |
                                  (static_cast<uint32_t>(random_.next()) & 0xffff));
    }
    hardware512::tdpbf16ps(c.data(), a.data(), b.data(), machine.data());
    model::tileloadd(3, c.data(), 16);
    model::tileloadd(4, reinterpret_cast<const float *>(a.data()), 16);
    model::tileloadd(5, reinterpret_cast<const float *>(b.data()), 16);
    model::tdpbf16ps(3, 4, 5);
    model::tilestored(3, model.data(), 16);
    for (int i = 0; i < words && !HasFailure(); i++) {
      if (std::isnan(machine[i]) && std::isnan(model[i])) continue;
      EXPECT_EQ(std::bit_cast<uint32_t>(machine[i]), std::bit_cast<uint32_t>(model[i]))
          << "row " << i / 16 << ", column " << i % 16 << ": " << model[i] << " for " << machine[i];
    }
  }

  Random random_{1};
};

TEST_F(ModelTiles, ProductsAndSums) {
  for (int round = 0; round < 200 && !HasFailure(); round++) {
    check(118, 20);
    check(126, 1);
  }
}

/// Products and sums around 2^-126, operands below it.
TEST_F(ModelTiles, NearZero) {
  for (int round = 0; round < 200 && !HasFailure(); round++) {
    check(62, 3);
    check(0, 130);
  }
}

/// Beyond the largest number, infinities and NaN.
TEST_F(ModelTiles, NotFinite) {
  for (int round = 0; round < 100 && !HasFailure(); round++) {
    check(188, 4);
    check(0, 256);
  }
}

}  // namespace
}  // namespace test
