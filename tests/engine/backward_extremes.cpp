// backward_extremes.*: gradients, weights and their products at the ends of their types.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <string>

#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/number.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

constexpr double largest_bf16 = 0x1.fep127;
/// Finite numbers that bf16, rounded to nearest, would take for infinity.
constexpr double beyond_bf16 = 0x1.ff4p127;

/// All elements of a tensor.
void fill(const Tensor &tensor, double x) {
  tensor.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { tensor.set(i, j, h, d, x); });
}

/// Row j of every head.
void fill_row(const Tensor &tensor, int64_t j, double x) {
  tensor.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
    if (i == j) tensor.set(b, i, h, d, x);
  });
}

class BackwardExtremes : public EngineTest {
 protected:
  /// One head; all but its inputs is f32.
  Case of_size(int64_t sq, int64_t sk, int64_t d = 24) const {
    Case c = typed(Case{});
    c.backward = true;
    c.sq = sq, c.sk = sk, c.d = d;
    c.dout = c.dq = c.dk = c.dv_type = c.dbias_type = FA_F32;
    return c;
  }

  void expect_right(const BackwardInstance &instance, const std::string &what) {
    instance.clear_gradients();
    const Op op(instance.desc, kernel);
    ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
    EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "") << what << "\n" << repeat_line(instance.c, kernel);
  }
};

/// A finite dout has no part in the gradients of keys that its query does not attend, and a finite one in the others'.
// [F169] [F170]
TEST_P(BackwardExtremes, LargestDout) {
  for (const bool by_mask : {false, true}) {
    for (const double x : {beyond_bf16, double(FLT_MAX), -double(FLT_MAX)}) {
      for (const int64_t row : {0, 17, 39}) {
        Case c = of_size(40, 70);
        c.mask = FA_MASK_CAUSAL_TOP_LEFT;
        if (by_mask) c.boolmask = "qk";
        const BackwardInstance s(c);
        fill(s.v, 0x1p-10), fill(s.out, 0x1p-10);
        fill_row(s.dout, row, 0);
        s.dout.set(0, row, 0, 5, x);
        expect_right(s, "dout of " + std::to_string(x) + " in row " + std::to_string(row));
      }
    }
  }
}

/// One query and one key, so that each gradient is a single product.
// [F170]
TEST_P(BackwardExtremes, LargestGradientOfAScore) {
  for (const bool biased : {false, true}) {
    Case c = of_size(1, 1);
    c.delta = true;
    if (biased) c.bias = "f32:k", c.dbias = "k";
    const BackwardInstance s(c);
    if (biased) fill(s.bias, 0);
    fill(s.q, 0x1p-10), fill(s.k, 0x1p-10), fill(s.v, 0), fill(s.dout, 0), fill(s.delta, 0);
    fill(s.lse, s.q.get(0, 0, 0, 0) * s.k.get(0, 0, 0, 0) * double(c.d) / std::sqrt(double(c.d)));
    // Exact in every type of v that holds 255 / 128: the largest bf16 and three quarters of its last place.
    s.dout.set(0, 0, 0, 0, 0x1p127), s.v.set(0, 0, 0, 0, 0x1.fep0);
    s.dout.set(0, 0, 0, 1, 0x1.8p122), s.v.set(0, 0, 0, 1, 0x1p-3);
    expect_right(s, biased ? "dx beyond bf16, with a bias" : "dx beyond bf16");
  }
}

/// An lse that does not belong to the scores leaves weights of any size.
// [F160] [F170]
TEST_P(BackwardExtremes, LargestWeights) {
  for (const double logarithm : {60.0, 87.5, 88.4, 88.7215, 88.7225}) {
    for (const bool biased : {false, true}) {
      Case c = of_size(9, 40);
      if (biased) c.bias = "f32:k", c.dbias = "k";
      const BackwardInstance s(c);
      if (biased) fill(s.bias, 0);
      fill(s.q, 0);
      fill(s.lse, -logarithm);
      s.dout.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
        s.dout.set(i, j, k, l, 0x1p-20 * s.dout.get(i, j, k, l));
      });
      expect_right(s, "weights of exp(" + std::to_string(logarithm) + ")");
    }
  }
}

/// dout at the ends of its type, with values that keep all sums finite.
// [F170]
TEST_P(BackwardExtremes, DoutAtTheEndsOfItsType) {
  for (const fa_dtype dout : {FA_F32, FA_BF16, FA_F16}) {
    for (const char *feature : {"", "causal", "softcap", "bias", "few"}) {
      Case c = of_size(std::string(feature) == "few" ? 2 : 30, 70, 32);
      c.dout = dout, c.dout_ends = true, c.v_amp = 1e-4;
      if (std::string(feature) == "causal") c.mask = FA_MASK_CAUSAL;
      if (std::string(feature) == "softcap") c.softcap = 2;
      if (std::string(feature) == "bias") c.bias = "f32:hk", c.dbias = "k";
      EXPECT_EQ(failure_of(c, kernel), "") << feature;
    }
  }
}

/// Numbers below the normal ones of each operand's type, those that they are multiplied with being as large as types
/// are.
// [F170]
TEST_P(BackwardExtremes, SubnormalOperands) {
  const bool f16 = GetParam().types == "f16";
  for (const char *operands : {"q", "k", "v", "d", "qk", "vd", "bas"}) {
    for (const int64_t queries : {2, 30}) {
      Case c = of_size(queries, 70, 32);
      c.subnormal = operands;
      c.amp = c.k_amp = f16 ? 1e4 : 1e36, c.dout_amp = 1e4, c.scale = 1;
      if (c.subnormal == "q" || c.subnormal == "k" || c.subnormal == "qk") c.dout_amp = 1e-4;
      if (c.subnormal == "v" || c.subnormal == "d" || c.subnormal == "vd") c.amp = c.k_amp = 1, c.dout_amp = 1e30;
      if (c.subnormal == "bas") {
        c.amp = c.k_amp = c.dout_amp = 1;
        c.bias = "f32:qk", c.dbias = "qk", c.alibi = "h", c.sinks = c.dsinks = "h";
      }
      EXPECT_EQ(failure_of(c, kernel), "");
    }
  }
}

/// A softcap that has let a score through to where it is flat, and a key whose gradient cancels.
// [F163] [F170]
TEST_P(BackwardExtremes, SaturatedSoftcap) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Case c = of_size(8, 1, 32);
    c.softcap = 1, c.amp = 3, c.scale = 1, c.seed = seed, c.dout_amp = 1e6;
    EXPECT_EQ(failure_of(c, kernel), "");
  }
}

/// Scores far beyond a softcap that is below the normal numbers.
// [F163] [F170]
TEST_P(BackwardExtremes, SubnormalSoftcap) {
  for (const double times : {0.5, 10.0}) {
    Case c = of_size(3, 2, 16);
    c.softcap = 1e-40, c.scale = 1e-30;
    const BackwardInstance s(c);
    fill(s.q, 0), fill(s.k, 0);
    for (int64_t i = 0; i < 3; ++i) s.q.set(0, i, 0, 0, 0x1p-10);
    s.k.set(0, 0, 0, 0, times * 1e-10 * 0x1p10), s.k.set(0, 1, 0, 0, -times * 1e-10 * 0x1p10);
    expect_right(s, "scores of " + std::to_string(times) + " softcaps");
  }
}

/// Forward, then backward, as callers have it, against double precision from end to end: with scores so large, the
/// gradients are no better than the agreement of both passes on them.
// [F170]
TEST_P(BackwardExtremes, EndToEnd) {
  double worst = 0, naive = 0;
  for (const int64_t queries : {1, 2, 4, 16}) {
    for (const int64_t dim : {64, 256}) {
      for (uint64_t seed = 1; seed <= (dim == 64 ? 3 : 6); ++seed) {
        Case c = typed(Case{});
        c.backward = c.chained = true;
        c.sq = queries, c.sk = 70, c.hq = c.hkv = 2, c.d = dim, c.scale = 1, c.seed = seed;
        c.dq = c.dk = c.dv_type = c.out = FA_F32;
        if (!in_shard(seed)) continue;
        Errors e;
        EXPECT_EQ(failure_of(c, kernel, &e), "");
        worst = std::max(worst, e.out), naive = std::max(naive, e.naive);
      }
    }
  }
  std::printf("largest error %.2e, naive's %.2e\n", worst, naive);
}

TEST_TARGETS(BackwardExtremes, {"f32", "f16", "bf16"});

}  // namespace
}  // namespace test
