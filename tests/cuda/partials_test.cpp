// The workspace of forward plans, from inside: a plan's layout fits the bound, and the bound never falls.
#include <gtest/gtest.h>

#include "forward_calls.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

TEST(Partials, TheWorkspaceOfAPlanIsEnoughAndItsGridIsLegal) {
  reference::Random random(1);
  for (int i = 0; i < 20000; ++i) {
    Shaped s = random_shape(&random);
    const KernelSet image = image_of(random.chance(50) ? "mma" : "simt", 100);
    Device device = device_of(int(random.between(1, 200)));
    device.memory_rate = random.one_of(0, 8, 18, 28);
    const ForwardPlan plan = plan_of(s.get(), image, device);
    ASSERT_LE(number(plan.workspace.bytes()), bound_of(s.get(), image, device)) << i;
    for (const LaunchLoop &loop : plan.loops()) {
      ASSERT_GE(loop.tiles, 1);
      ASSERT_GE(loop.tiles_per_launch, 1);
      ASSERT_LE(loop.tiles_per_launch * loop.schedule.num_splits, 0x7fffffff);
      ASSERT_GE(loop.rounds() * loop.tiles_per_launch, loop.tiles);
    }
    ASSERT_TRUE(s.problem.num_splits == 0 || plan.splits() <= s.problem.num_splits);
    if (plan.splits() > 1) {
      ASSERT_TRUE(plan.kernel().entry == Entry::split || plan.kernel().entry == Entry::decode);
      ASSERT_EQ(number(plan.workspace.bytes()), plan.splits() * plan.last().tiles_per_launch * plan.kernel().tile.rows *
                                                    (s.attention.head_dim_v + 2) * int64_t{sizeof(float)});
    }
  }
}

// [F128]
TEST(Partials, TheWorkspaceNeverFallsWhenABoundRises) {
  reference::Random random(2);
  for (int i = 0; i < 5000; ++i) {
    Shaped s = random_shape(&random);
    const KernelSet image = image_of(random.chance(50) ? "mma" : "simt", 100);
    Device device = device_of(int(random.between(1, 200)));
    device.memory_rate = random.one_of(0, 8, 18, 28);
    for (int bound = 0; bound < 4; ++bound) {
      Shaped larger = s;
      ForwardCall &p = larger.problem;
      int64_t before = bound_of(s.get(), image, device);
      for (int step = 0; step < 6; ++step) {
        if (bound == 0) p.batch += random.between(1, 20);
        if (bound == 1) p.rows_q += 100, p.max_seqlen_q = p.cu_seqlens_q ? p.max_seqlen_q : p.rows_q;
        if (bound == 2) p.max_seqlen_k = p.rows_k += random.between(1, 5000);
        if (bound == 3) {
          if (p.num_splits == 0 || p.num_splits >= 1000) break;
          p.num_splits += int32_t(random.between(1, 20));
        }
        const int64_t bytes = bound_of(larger.get(), image, device);
        ASSERT_GE(bytes, before) << i << " bound " << bound;
        before = bytes;
      }
    }
  }
}

/// The workspace is bounded by the device, or by the part of one launch, however large the legal shapes are.
TEST(Partials, TheWorkspaceOfExtremeShapesIsBounded) {
  constexpr int64_t longest = INT32_MAX;
  const KernelSet image = image_of("simt", 576);
  const int64_t tile = image.images[0]->tile_of(Entry::split).rows * (576 + 2) * int64_t{sizeof(float)};
  static const int32_t cumulative = 0;
  for (const bool invariant : {false, true}) {
    for (const int32_t splits : {0, 2, 1024}) {
      if (invariant && splits != 0) continue;
      int64_t before = 0;
      for (const int64_t batch : {int64_t{1}, int64_t{1} << 20, longest}) {
        for (const int64_t heads : {int64_t{1}, int64_t{1} << 20, longest}) {
          Shaped s(batch, longest, longest, heads, 1, 576);  // of which the sequences have few
          s.problem.cu_seqlens_q = &cumulative;
          s.attention.batch_invariant = invariant;
          s.problem.num_splits = splits;
          const int64_t bytes = bound_of(s.get(), image, device_of(108));
          ASSERT_LE(bytes, std::max(max_partial_bytes, int64_t{longest / 1024 + 1} * tile)) << batch << " x " << heads;
          ASSERT_GE(bytes, heads == 1 ? 1 : before) << batch << " x " << heads;
          before = bytes;
        }
      }
    }
  }
}

/// Partial results are bounded however long the sequences are: the rest is done in rounds.
TEST(Partials, LongCallsAreDoneInRounds) {
  Shaped s(1, 131072, 131072, 8, 8, 128);
  s.attention.batch_invariant = true;
  const KernelSet image = image_of("mma", 128);
  const ForwardPlan plan = plan_of(s.get(), image, device_of(108));
  EXPECT_EQ(plan.splits(), 128);
  EXPECT_GT(plan.loop[0].rounds(), 1);
  EXPECT_LE(bound_of(s.get(), image, device_of(108)), max_partial_bytes);
}

/// One tile's own may be more than the bound of a launch: it is done by itself, with the memory that it takes.
TEST(Partials, ATileOfManySplitsHasItsMemory) {
  Shaped s(1, 40, 131072, 2, 2, 256);
  s.problem.num_splits = 1024;
  const KernelSet image = image_of("mma", 256);
  const ForwardPlan plan = plan_of(s.get(), image, device_of(108));
  EXPECT_EQ(plan.splits(), 1024);
  EXPECT_EQ(plan.loop[0].tiles_per_launch, 1);
  EXPECT_GT(number(plan.workspace.bytes()), max_partial_bytes);
  EXPECT_GE(bound_of(s.get(), image, device_of(108)), number(plan.workspace.bytes()));
}

}  // namespace
}  // namespace fa::cuda
