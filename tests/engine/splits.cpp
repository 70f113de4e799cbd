// splits.*: the separate paths of the kernel that joins splits: from one split to hundreds, rows that no vector
// divides, splits without keys, values that are not finite. On GPUs, whose splits follow num_splits.
#include <gtest/gtest.h>

#include "engine/target.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

class Splits : public EngineTest {
 protected:
  void expect_right(Case c) {
    c = typed(c);
    c.seed = ++count_;
    EXPECT_EQ(failure_of(c, kernel), "");
  }

  /// Keys that are enough for as many splits: the kernels' blocks have 32 of f32, and 128 at most.
  int64_t keys_of(int64_t splits) const { return splits * (GetParam().types == "f32" ? 32 : 128); }

  /// A token's heads over sequences of some lengths, the shorter ones with splits that have no keys.
  Case decode(int32_t splits) const {
    static constexpr int64_t columns[] = {33, 8, 1, 40, 3, 64, 31, 4, 18};
    Case c;
    c.b = 2, c.sq = 1, c.hq = 4, c.hkv = 2, c.sk = keys_of(splits), c.d = 8, c.dv = columns[splits % 9],
    c.splits = splits, c.used_k = true, c.amp = 3, c.sinks = splits % 2 ? "h" : "", c.workspace = splits % 5 == 0;
    return c;
  }

 private:
  uint64_t count_ = 0;
};

TEST_P(Splits, FromOneToHundreds) {
  const int32_t step = GetParam().types == "f32" ? 1 : 4;  // the kernel that joins them is the same
  for (int32_t splits = 1; splits <= 300; splits += step * (splits < 20 ? 1 : splits < 60 ? 5 : 21))
    expect_right(decode(splits));
  for (const int32_t around : {32, 64, 128, 256, 296}) {
    expect_right(decode(around + 1));
    if (step == 1) expect_right(decode(around));
  }
}

/// Beyond 256 splits a thread has more than eight, which it adds up one after another.
TEST_P(Splits, InTwoRounds) {
  Case c = decode(270);
  c.used_k = false;
  expect_right(c);
}

/// Tiles of many rows: a block has as many of them as it has threads to spare, and those behind the last are left out.
TEST_P(Splits, OfManyRows) {
  for (const int32_t splits : {2, 3, 8, 9, 17, 33, 70}) {
    Case c = decode(splits);
    c.b = 1, c.hq = c.hkv = 1, c.sq = 70, c.used_k = false, c.dv = splits % 2 ? 100 : 96, c.sk = keys_of(splits) / 2;
    c.mask = FA_MASK_CAUSAL;  // rows differ in which of their splits have keys
    if (splits % 3 == 0) c.out_layout = Layout::odd;
    if (splits % 3 == 2) c.out = FA_F32;
    expect_right(c);
  }
}

TEST_P(Splits, WhoseValuesAreNotFinite) {
  for (const int32_t splits : {2, 9, 40, 270}) {
    if (splits > 40 && GetParam().types != "f32") continue;
    for (const int64_t columns : {33, 64}) {
      Case c = decode(splits);
      c.dv = columns, c.special = true, c.boolmask = "k";
      expect_right(c);
      c.sq = 20, c.bias = "f16:k", c.padded = true;
      expect_right(c);
    }
  }
}

/// Under FA_FLAG_BATCH_INVARIANT how many splits there are follows from the longest sequence's bound, and bits do not.
TEST_P(Splits, BitsOfARowFollowFromItsOwn) {
  constexpr int32_t keys = 2500;
  std::vector<char> first;
  for (const int64_t bound : {2500, 9000, 40000, 270000}) {
    Case c;
    c.sq = 3, c.sk = bound, c.d = 8, c.dv = 12, c.used_k = true, c.amp = 3, c.flags = FA_FLAG_BATCH_INVARIANT;
    const Instance instance(typed(c));
    instance.seqused_k[0] = keys;
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t d = 0; d < c.dv; ++d) {
        if (d < c.d) instance.k.set(0, j, 0, d, double((j * 7 + d * 3) % 11 - 5) / 4);
        instance.v.set(0, j, 0, d, double((j * 5 + d) % 13 - 6) / 8);
      }
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
    if (first.empty()) first = instance.output_bits();
    EXPECT_TRUE(first == instance.output_bits()) << bound << " keys at most";
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, Splits, testing::ValuesIn(gpu_targets({"f32", "f16", "bf16"})), target_name);

}  // namespace
}  // namespace test
