// many_sequences.*: packed sequences by the hundred thousand, most of them without rows.
#include <gtest/gtest.h>

#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

class ManySequences : public EngineTest {
 protected:
  Case packed(int64_t sequences, int64_t rows) const {
    Case c;
    c.b = sequences, c.sq = c.sk = rows, c.d = 40, c.cu_q = c.cu_k = true;
    return typed(c);
  }

  /// Every hundredth has a row or two, and one of the last ones 150.
  static void thin_out(const GuardedInts &cumulative, int32_t shift) {
    const auto count = int32_t(cumulative.size()) - 1;
    for (int32_t b = 0; b < count; b++) {
      const int32_t rows = b == count - 40 ? 150 : b % 100 == shift ? 1 + b / 100 % 2 : 0;
      cumulative[size_t(b) + 1] = cumulative[size_t(b)] + rows;
    }
  }

  /// bounds: the call states the longest sequence.
  template <class Args>
  static void set_bounds(Args *args, bool bounds) {
    args->max_seqlen_q = args->max_seqlen_k = bounds ? 150 : 0;
  }
};

// [F20] [F37]
TEST_P(ManySequences, AreEachAttended) {
  for (const int64_t count : {66000, 100000}) {
    if (!in_shard(uint64_t(count))) continue;
    Instance instance(packed(count, 1));
    thin_out(instance.cu_seqlens_q, 7);
    thin_out(instance.cu_seqlens_k, 7);
    set_bounds(&instance.args, count == 66000);
    instance.clear_outputs();
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, Expected(instance)), "") << count;
    EXPECT_EQ(instance.untouched(), "") << count;
  }
}

TEST_ALL_TARGETS(ManySequences, {"f32", "f16", "bf16"});

class ManyGradients : public ManySequences {};

/// In two passes, and fewer sequences in one loop, which has sums of 128 rows for each of them.
// [F20] [F37] [F171]
TEST_P(ManyGradients, AreEachComputed) {
  for (const int64_t count : {66000, 3000}) {
    if (!in_shard(uint64_t(count))) continue;
    Case c = packed(count, 1);
    c.backward = true;
    if (count == 66000) c.flags = FA_FLAG_BATCH_INVARIANT;
    BackwardInstance instance(c);
    thin_out(instance.cu_seqlens_q, 7);
    thin_out(instance.cu_seqlens_k, 7);
    set_bounds(&instance.args, count == 3000);
    set_bounds(&instance.call, count == 3000);
    instance.clear_gradients();
    const Op op(instance.desc, kernel);
    ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "") << count;
    EXPECT_EQ(instance.gradients_untouched(), "") << count;
  }
}

TEST_ALL_TARGETS(ManyGradients, {"f32", "f16", "bf16"});

}  // namespace
}  // namespace test
