// tensor_cores.*: operands of 16 bits at the ends of their types, on GPUs: gradients of scores and weights that
// rounding to q's type must not make infinite, and subnormal numbers, which count as they are.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

void fill(const Tensor &tensor, double x) {
  tensor.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { tensor.set(i, j, h, d, x); });
}

class TensorCores : public EngineTest {
 protected:
  /// A backward call in two passes, or in one loop where the GPU has that.
  Case gradients(uint32_t flags) const {
    Case c;
    c.backward = c.delta = c.dlse = true, c.flags = flags;
    c = typed(c);
    c.dq = c.dk = c.dv_type = FA_F32;
    return c;
  }
  static constexpr uint32_t both[] = {FA_FLAG_BATCH_INVARIANT, FA_FLAG_NONDETERMINISTIC};

  void expect_right(const BackwardInstance &instance) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
    EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "") << repeat_line(instance.c, kernel);
  }
  void expect_right(const Instance &instance) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
    EXPECT_EQ(compare(instance, Expected(instance)), "") << repeat_line(instance.c, kernel);
  }

  /// The smallest subnormal number of q's type, and a number of which 64 products with it are about 1.
  double least() const { return GetParam().types == "f16" ? 0x1p-24 : 0x1p-133; }
  double most() const { return GetParam().types == "f16" ? 0x1p15 : 0x1p127; }
};

/// Gradients of scores that bf16 rounds to infinity, and those that f16 holds by the smallest factor alone. One of each
/// row, so that no sum is beyond f32. [F170]
TEST_P(TensorCores, LargestGradientsOfScores) {
  for (const uint32_t flags : both) {
    for (const double x : {0x1.ff4p127, -0x1.ff4p127, 0x1p126, 0x1p116, 0x1p60}) {
      Case c = gradients(flags);
      c.sq = c.sk = 1;
      const BackwardInstance s(c);
      fill(s.q, 0x1p-10), fill(s.k, 0x1p-10), fill(s.v, 0), fill(s.dout, 0), fill(s.delta, 0), fill(s.dlse, x);
      fill(s.lse, 0x1p-20 * 64 / 8);
      expect_right(s);
    }
  }
}

/// An lse that is not of the scores leaves weights of any size. [F160] [F170]
TEST_P(TensorCores, LargestWeights) {
  for (const uint32_t flags : both) {
    for (const double logarithm : {60.0, 87.5, 88.4, 88.72}) {
      Case c = gradients(flags);
      c.sq = 3, c.sk = 40;
      const BackwardInstance s(c);
      fill(s.q, 0), fill(s.lse, -logarithm), fill(s.dlse, 0), fill(s.delta, 0);
      s.dout.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
        s.dout.set(i, j, k, l, 0x1p-14 * s.dout.get(i, j, k, l));
      });
      expect_right(s);
    }
  }
}

/// Keys that matter to one column alone, in which the one that matters to the others is 0: their weights are far below
/// its, and so are their f16 values. [F170]
TEST_P(TensorCores, SmallTerms) {
  for (const uint32_t flags : both) {
    for (const double apart : {10.0, 17.0, 20.8}) {
      Case c = gradients(flags);
      c.sq = 40, c.sk = 70;
      const BackwardInstance s(c);
      const auto put = [](const Tensor &t, auto value) {
        t.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) { t.set(b, i, h, d, value(i, d)); });
      };
      put(s.q, [](int64_t, int64_t d) { return d == 0 ? 8.0 : 0.0; });
      put(s.k, [&](int64_t j, int64_t d) { return d == 0 && j > 0 ? -apart : d == 5 && j > 0 ? 6e4 : 0.0; });
      put(s.v, [](int64_t j, int64_t d) { return 0.3 + 0.01 * double((3 * j + d) % 7); });
      put(s.dout, [](int64_t i, int64_t d) { return 0.7 + 0.1 * double((i + d) % 3); });
      fill(s.lse, 0), fill(s.delta, 0), fill(s.dlse, 0);
      expect_right(s);
    }
  }
}

/// Gradients of sinks far below their rows' other scores, of which one rounding is large relative to their weight.
/// [F167] [F170]
TEST_P(TensorCores, SinksOfSmallWeight) {
  for (const double logarithm : {10.0, 30.0, 60.0}) {
    for (const int64_t rows : {1, 3, 40}) {
      Case c = gradients(0);
      c.sq = rows, c.sk = 8, c.sinks = c.dsinks = "h";
      const BackwardInstance s(c);
      s.lse.each([&](int64_t b, int64_t h, int64_t i, int64_t, int64_t) {
        s.lse.set(b, h, i, 0, logarithm + 0.37 * double(i % 5));
      });
      expect_right(s);
    }
  }
}

/// Subnormal queries by large keys, subnormal keys by large queries: scores of some size. In tiles and with few rows.
TEST_P(TensorCores, SubnormalQueriesAndKeys) {
  for (const int64_t rows : {1, 130}) {
    for (const bool of_keys : {false, true}) {
      Case c = typed(Case{});
      c.sq = rows, c.sk = 200;
      const Instance s(c);
      const auto put = [&](const Tensor &t, double size, int64_t period) {
        t.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
          t.set(b, i, h, d, size * double(1 + (i + d) % period));
        });
      };
      put(of_keys ? s.k : s.q, least(), 7), put(of_keys ? s.q : s.k, most() / 64, 5);
      fill(s.v, 1);
      s.v.each([&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) { s.v.set(b, j, h, d, double(j % 9) - 4); });
      expect_right(s);
    }
  }
}

/// Subnormal values: every element of the result is one.
TEST_P(TensorCores, SubnormalValues) {
  for (const int64_t rows : {1, 130}) {
    Case c = typed(Case{});
    c.sq = rows, c.sk = 200, c.out = FA_F32;
    const Instance s(c);
    s.v.each([&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) {
      s.v.set(b, j, h, d, least() * double((j + d) % 9));
    });
    expect_right(s);
    if (GetParam().types == "f16") {  // which f32 holds with all bits
      double sum = 0;
      s.out.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) { sum += s.out.get(b, i, h, d); });
      EXPECT_GT(sum, 0);
    }
  }
}

/// Of the backward pass: values and dout whose product is of the size of 1, and keys and queries that it is multiplied
/// by. [F170]
TEST_P(TensorCores, SubnormalGradients) {
  for (const uint32_t flags : both) {
    for (const bool of_values : {false, true}) {
      Case c = gradients(flags);
      c.sq = 40, c.sk = 70;
      const BackwardInstance s(c);
      fill(s.delta, 0), fill(s.dlse, 0);
      const Tensor &small = of_values ? s.v : s.dout, &large = of_values ? s.dout : s.v;
      small.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
        small.set(b, i, h, d, least() * double((i + d) % 9 - 4));
      });
      large.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
        large.set(b, i, h, d, most() / 64 * double((i + 2 * d) % 5 - 2));
      });
      expect_right(s);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, TensorCores, testing::ValuesIn(gpu_targets({"f16", "bf16"})), target_name);

}  // namespace
}  // namespace test
