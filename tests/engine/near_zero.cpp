// near_zero.*: operands below the normal numbers of their types, and others as large as their types.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/target.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

class NearZero : public EngineTest {
 protected:
  /// Only dot products of bf16 take such numbers for 0: elsewhere a bound has no room for it.
  bool flushes() const { return GetParam().arch.ends_with("_bf16"); }
};

// [F25]
TEST_P(NearZero, SubnormalOperands) {
  for (const int64_t queries : {1, 2, 20}) {
    for (const bool invariant : {false, true}) {
      for (const char *operands : {"q", "k", "qk", "v", "qkv"}) {
        Case c = typed(Case{}, uint64_t(queries));
        c.sq = queries, c.sk = 150, c.out = FA_F32, c.scale = 1, c.subnormal = operands;
        const bool f16 = c.q == FA_F16 || c.kv_type() == FA_F16;
        c.amp = c.k_amp = c.subnormal == "v" ? 1 : f16 ? 1e4 : 1e36;
        if (invariant) c.flags |= FA_FLAG_BATCH_INVARIANT;
        const Instance s(c);
        const Op op(s.desc, kernel);
        ASSERT_EQ(forward(op, s), FA_OK) << fa_last_error() << "\n" << repeat_line(c, kernel);
        Expected expected(s);
        if (!flushes()) std::fill(expected.exact.lost.begin(), expected.exact.lost.end(), 0);
        EXPECT_EQ(compare(s, expected), "") << repeat_line(c, kernel);
      }
    }
  }
}

/// Of types whose products reach the numbers of f32 from such operands: f16 has none so large.
class NearZeroProducts : public NearZero {};

/// A score of 0.8 that is a product of a number near 0.
// [F25]
TEST_P(NearZeroProducts, Count) {
  if (flushes()) GTEST_SKIP() << "its dot products take them for 0 (docs/precision.md)";
  for (const int64_t queries : {1, 20}) {
    Case c = typed(Case{});
    c.sq = queries, c.sk = 2, c.d = 16, c.scale = 1;
    const Instance s(c);
    s.q.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) { s.q.set(b, i, h, d, d < 8 ? 1e-39 : 0); });
    s.k.each(
        [&](int64_t b, int64_t j, int64_t h, int64_t d, int64_t) { s.k.set(b, j, h, d, j == 0 && d < 8 ? 1e38 : 0); });
    const Op op(s.desc, kernel);
    ASSERT_EQ(forward(op, s), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(s, Expected(s)), "") << repeat_line(c, kernel);
    EXPECT_GT(s.lse.get(0, 0, 0, 0), 1.1);  // of a score of 0.8, and one of 0
  }
}

TEST_TARGETS(NearZero, all_types);
TEST_TARGETS(NearZeroProducts, {"f32", "bf16"});

}  // namespace
}  // namespace test
