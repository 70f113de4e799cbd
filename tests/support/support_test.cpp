// The tests' own tools: conversions, the textual form of a case, layouts, guard pages.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/case.h"
#include "reference/memory.h"
#include "reference/number.h"
#include "reference/random.h"
#include "reference/tensor.h"

namespace {

using namespace reference;

/// x rounded to a format of the given precision and smallest exponent by the definition, in double arithmetic.
double rounded_by_definition(double x, int precision, int min_exponent) {
  int exponent;
  std::frexp(x, &exponent);
  exponent = std::max(exponent - precision, min_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
}

TEST(Number, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float half = F16::to_float(uint16_t(bits)), brain = BF16::to_float(uint16_t(bits));
    ASSERT_TRUE(std::isnan(half) || F16::from_float(half) == bits) << bits;
    ASSERT_TRUE(std::isnan(brain) || BF16::from_float(brain) == bits) << bits;
  }
  EXPECT_TRUE(std::isnan(F16::to_float(F16::from_float(NAN))));
  EXPECT_TRUE(std::isnan(BF16::to_float(BF16::from_float(NAN))));
}

TEST(Number, RoundsToNearestEven) {
  for (uint64_t n = 0; n < 200000; ++n) {
    const float x = float(std::ldexp(normal(hash(1, 2, n)), int(n % 40) - 26));
    ASSERT_EQ(round_to(FA_F16, x), rounded_by_definition(x, 11, -24)) << x;
    ASSERT_EQ(round_to(FA_BF16, x), rounded_by_definition(x, 8, -133)) << x;
  }
  EXPECT_EQ(round_to(FA_F16, 65519.0f), 65504.0f);
  EXPECT_TRUE(std::isinf(round_to(FA_F16, 65520.0f)));
  EXPECT_EQ(F16::to_float(0x3c01), 1 + 0x1p-10f);
  EXPECT_EQ(F16::to_float(0x0001), 0x1p-24f);
}

TEST(Case, TextRoundTrip) {
  Case c;
  c.b = 3;
  c.q = FA_BF16;
  c.out = FA_F32;
  c.mask = FA_MASK_CAUSAL_TOP_LEFT;
  c.window_left = 0;
  c.softcap = 0.1;
  c.cu_q = c.used_k = true;
  c.bias = "f16:hk";
  c.lse = false;
  c.k_layout = Layout::one_head;
  c.seed = ~0ull;
  std::string error;
  EXPECT_EQ(to_text(case_from_text(to_text(c), &error)), to_text(c));
  EXPECT_EQ(error, "");
  EXPECT_NE(to_text(c).find("mask=top_left"), std::string::npos) << to_text(c);
  case_from_text("b=2 sq= nonsense=1 word", &error);
  for (const char *part : {"sq=", "nonsense", "word"}) EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(Tensor, EveryLayoutHoldsItsElements) {
  for (int layout = 0; layout < output_layout_count; ++layout) {
    for (const Guard guard : {Guard::end, Guard::start}) {
      const Tensor t({2, 3, 4, 5}, FA_F16, Layout(layout), guard);
      t.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t n) { t.set(i, j, k, l, double(n)); });
      t.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t n) {
        ASSERT_EQ(t.get(i, j, k, l), double(n)) << name_of(Layout(layout));
      });
      EXPECT_EQ(t.untouched_outside(std::vector<char>(6, 1)), "") << name_of(Layout(layout));
      EXPECT_NE(t.untouched_outside(std::vector<char>(6, 0)), "") << name_of(Layout(layout));
    }
  }
}

TEST(Tensor, ContentsDoNotDependOnTheLayout) {
  const Tensor a({2, 3, 2, 4}, FA_F32, Layout::bshd, Guard::end), b({2, 3, 2, 4}, FA_F32, Layout::mirrored, Guard::end);
  a.randomise(5, 1, 1);
  b.randomise(5, 1, 1);
  a.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) { ASSERT_EQ(a.get(i, j, k, l), b.get(i, j, k, l)); });
}

TEST(MemoryDeathTest, GuardPagesFault) {
  const GuardedMemory at_end(6, Guard::end), at_start(6, Guard::start);
  EXPECT_DEATH(const_cast<volatile char *>(at_end.data())[6] = 1, "");
  EXPECT_DEATH(const_cast<volatile char *>(at_start.data())[-1] = 1, "");
}

}  // namespace
