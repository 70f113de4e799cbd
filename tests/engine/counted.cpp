// counted.*: the instructions that the emulator counts follow from the rows of a call's sequences, packed or as a
// batch.
#include "engine/counted.h"

#include <gtest/gtest.h>

#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

class Counted : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped()) return;
    if (!LaunchCounts::available()) GTEST_SKIP() << LaunchCounts::unavailable_reason;
  }

  /// Warp instructions of a call with that number of sequences of up to 16 rows, packed or as a batch.
  double of_forward(int64_t count, bool is_packed, bool bounds = true) const {
    Instance instance(sequences(count, is_packed));
    if (!bounds) instance.args.max_seqlen_q = instance.args.max_seqlen_k = 0;
    const Op op(instance.desc, kernel);
    return counted([&] { return forward(op, instance); });
  }
  double of_backward(int64_t count, bool is_packed, bool in_order, bool bounds = true) const {
    Case c = sequences(count, is_packed);
    c.backward = true;
    if (!in_order) c.flags = FA_FLAG_BATCH_INVARIANT;
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

  /// The sum of a count over the launches of a call.
  template <class F>
  double counted(F run, const std::string &name = "warp_instructions") const {
    const LaunchCounts launches;
    EXPECT_EQ(run(), FA_OK) << fa_last_error();
    return launches.sum(name);
  }
};

/// Of tcgen05, whose blocks alone take over others.
class CountedTakeovers : public Counted {};

/// A grid has a block for each work tile. Those that find a multiprocessor begin, and cancel and take over the others
/// (cluster launch control).
TEST_P(CountedTakeovers, BlocksTakeOverOthers) {
  constexpr int of_a_b200 = 148;  // multiprocessors
  EXPECT_LE(blocks_of_tensor_memory(100), of_a_b200);
}

/// Limits of the instructions: of eight times as many sequences, and of packed ones relative to a batch.
constexpr double of_eight = 8 * 1.1, of_a_batch = 1.1;

// [F203]
TEST_P(Counted, PackedSequencesTakeWhatABatchDoes) {
  constexpr int64_t few = 128;
  const double all = of_forward(8 * few, true);
  EXPECT_LE(all, of_eight * of_forward(few, true));
  EXPECT_LE(all, of_a_batch * of_forward(8 * few, false));
}

/// Kernels then search for the first row of each sequence.
TEST_P(Counted, SequencesOfUnknownLengthsTakeInProportion) {
  constexpr int64_t few = 128;
  EXPECT_LE(of_forward(8 * few, true, false), of_eight * of_forward(few, true, false));
}

// [F203]
TEST_P(Counted, GradientsOfPackedSequencesTakeWhatABatchDoes) {
  constexpr int64_t few = 64;
  for (const bool in_order : {true, false}) {
    const double all = of_backward(8 * few, true, in_order);
    EXPECT_LE(all, of_eight * of_backward(few, true, in_order)) << in_order;
    EXPECT_LE(all, of_a_batch * of_backward(8 * few, false, in_order)) << in_order;
  }
}

TEST_P(Counted, GradientsOfUnknownLengthsTakeInProportion) {
  constexpr int64_t few = 64;
  EXPECT_LE(of_backward(8 * few, true, false, false), of_eight * of_backward(few, true, false, false));
}

/// Those of the GPUs that have tcgen05.
std::vector<Target> targets_of_tcgen05() {
  std::vector<Target> targets = gpu_targets({"f16"});
  std::erase_if(targets, [](const Target &target) { return target.arch != "sm_100a"; });
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Engine, CountedTakeovers, testing::ValuesIn(targets_of_tcgen05()), target_name);
INSTANTIATE_TEST_SUITE_P(Engine, Counted, testing::ValuesIn(gpu_targets({"f32", "f16", "bf16"})), target_name);

}  // namespace
}  // namespace test
