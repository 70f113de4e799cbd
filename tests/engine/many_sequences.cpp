// many_sequences.*, counted.*: packed sequences by the hundred thousand, most of them without rows; and, by the
// instructions that the emulator counts, that a call's work follows from their rows.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

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

  /// bounds: lengths are known to be at most those of the longest.
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

/// In two passes, and in one loop of fewer: its sums are of 128 rows for each sequence.
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

/// Counts a call's kernels by the file to which the emulator adds a line for each.
class Counted : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped()) return;
    const char *name = std::getenv("FA_EMU_JSON");
    if (name == nullptr) GTEST_SKIP() << "FA_EMU_JSON names no file: instructions are counted under the emulator";
    file_ = name;
    std::ofstream(file_, std::ios::app);  // it is there from now on
  }

  /// Warp instructions of a call with that number of sequences of up to 16 rows, packed or as a batch.
  double of_forward(int64_t count, bool is_packed, bool bounds = true) const {
    Instance instance(sequences(count, is_packed));
    if (!bounds) instance.args.max_seqlen_q = instance.args.max_seqlen_k = 0;
    const Op op(instance.desc, kernel);
    return counted([&] { return forward(op, instance); });
  }
  double of_backward(int64_t count, bool is_packed, bool in_turns, bool bounds = true) const {
    Case c = sequences(count, is_packed);
    c.backward = true;
    if (!in_turns) c.flags = FA_FLAG_BATCH_INVARIANT;
    BackwardInstance instance(c);
    if (!bounds) instance.call.max_seqlen_q = instance.call.max_seqlen_k = 0;
    const Op op(instance.desc, kernel);
    return counted([&] { return backward(op, instance); });
  }

  /// Blocks with tensor memory that run in a call of two work tiles a head.
  double blocks_of_tensor_memory(int64_t heads) const {
    Case c;
    c.sq = c.sk = 300, c.hq = c.hkv = heads, c.d = 64;
    const Instance instance(typed(c));
    const Op op(instance.desc, kernel);
    return counted([&] { return forward(op, instance); }, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32");
  }

 private:
  Case sequences(int64_t count, bool is_packed) const {
    Case c;
    c.b = count, c.sq = c.sk = 16, c.d = 40, c.hq = 2, c.cu_q = c.cu_k = is_packed;
    return typed(c);
  }

  /// What the lines of a call's kernels have behind a key, added up.
  template <class F>
  double counted(F run, const std::string &what = "warp_instructions") const {
    std::ifstream lines(file_);
    lines.seekg(0, std::ios::end);
    EXPECT_EQ(run(), FA_OK) << fa_last_error();
    lines.clear();
    double sum = 0;
    const std::string key = "\"" + what + "\":";
    for (std::string line; std::getline(lines, line);)
      if (const size_t at = line.find(key); at != std::string::npos) sum += std::atof(line.c_str() + at + key.size());
    EXPECT_GT(sum, 0) << "the emulator has counted nothing";
    return sum;
  }

  std::string file_;
};

/// Of a grid with a block for each work tile those begin that find room, and take over the others.
TEST_P(Counted, BlocksTakeOverOthers) {
  if (GetParam().arch != "sm_100a") GTEST_SKIP() << "only tcgen05's blocks do";
  constexpr int of_a_b200 = 148;  // multiprocessors
  EXPECT_LE(blocks_of_tensor_memory(100), of_a_b200);
}

/// The most that eight times as many sequences may take, and packed ones relative to a batch.
constexpr double of_eight = 8 * 1.1, of_a_batch = 1.1;

// [F203]
TEST_P(Counted, PackedSequencesTakeWhatABatchDoes) {
  constexpr int64_t few = 128;
  const double all = of_forward(8 * few, true);
  EXPECT_LE(all, of_eight * of_forward(few, true));
  EXPECT_LE(all, of_a_batch * of_forward(8 * few, false));
}

/// Where they begin is searched for then.
TEST_P(Counted, SequencesOfUnknownLengthsTakeInProportion) {
  constexpr int64_t few = 128;
  EXPECT_LE(of_forward(8 * few, true, false), of_eight * of_forward(few, true, false));
}

// [F203]
TEST_P(Counted, TheirGradientsDo) {
  constexpr int64_t few = 64;
  for (const bool in_turns : {true, false}) {
    const double all = of_backward(8 * few, true, in_turns);
    EXPECT_LE(all, of_eight * of_backward(few, true, in_turns)) << in_turns;
    EXPECT_LE(all, of_a_batch * of_backward(8 * few, false, in_turns)) << in_turns;
  }
}

TEST_P(Counted, GradientsOfUnknownLengthsTakeInProportion) {
  constexpr int64_t few = 64;
  EXPECT_LE(of_backward(8 * few, true, false, false), of_eight * of_backward(few, true, false, false));
}

INSTANTIATE_TEST_SUITE_P(Engine, Counted, testing::ValuesIn(gpu_targets({"f32", "f16", "bf16"})), target_name);

}  // namespace
}  // namespace test
