// The number of splits that a forward call gets, from inside.
#include "cuda/splits.h"

#include <gtest/gtest.h>

#include "forward_calls.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

TEST(Splits, DecodePacksHeadsAndSplitsKeys) {
  const KernelSet image = image_of("mma", 64);
  Shaped s(1, 1, 32768, 32, 8, 64);
  const ForwardPlan plan = plan_of(s.get(), image, device_of(108));
  EXPECT_EQ(plan.kernel().entry, Entry::decode);
  EXPECT_EQ(plan.loop[0].schedule.heads_per_tile, 4);
  EXPECT_EQ(plan.loop[0].tiles, 8);
  EXPECT_GE(plan.splits() * plan.loop[0].tiles, 85);
  EXPECT_LE(plan.splits() * plan.loop[0].tiles, 108);  // one block a multiprocessor has enough on its way
  Shaped many(64, 1, 32768, 32, 8, 64);
  EXPECT_EQ(plan_of(many.get(), image, device_of(108)).splits(), 1);
  Shaped few_keys(1, 1, 64, 32, 8, 64);
  EXPECT_EQ(plan_of(few_keys.get(), image, device_of(108)).splits(), 1);
}

TEST(Splits, MemoryAsFastAsABlockGetsTwo) {
  const KernelSet image = image_of("mma", 128);
  const auto blocks_of = [&](const Device &device) {
    Shaped s(1, 1, 131072, 8, 1, 128);
    const ForwardPlan plan = plan_of(s.get(), image, device);
    EXPECT_LE(number(plan.workspace.bytes()), bound_of(s.get(), image, device));
    return plan.splits() * plan.loop[0].tiles;
  };
  EXPECT_GE(blocks_of(fast_device()), 132 + 66);  // more than 128 splits of one head
  EXPECT_LE(blocks_of(fast_device()), 264);
  EXPECT_GE(blocks_of(fast_device(28)), 132 + 66);
  EXPECT_GE(blocks_of(fast_device(20)), 132 + 66);  // an H200
  EXPECT_LE(blocks_of(fast_device(14)), 132);       // an H100
  EXPECT_LE(blocks_of(fast_device(10)), 132);
  EXPECT_LE(blocks_of(fast_device(0)), 132);  // not known
}

/// A tile for each multiprocessor leaves fast memory idle, and slow memory busy.
TEST(Splits, FullDevicesAreSplitForFastMemoryAlone) {
  const KernelSet image = image_of("mma", 128);
  Shaped s(16, 1, 32768, 64, 8, 128);
  EXPECT_EQ(plan_of(s.get(), image, fast_device(14)).splits(), 1);
  EXPECT_EQ(plan_of(s.get(), image, fast_device(28)).splits(), 2);
}

/// Few multiprocessors may be enough for the memory: the others would only cost a second kernel.
TEST(Splits, MemoryThatIsBusyIsNotSplitFor) {
  const KernelSet image = image_of("mma", 128);
  Shaped s(10, 1, 32768, 64, 8, 128);  // 80 tiles
  EXPECT_EQ(plan_of(s.get(), image, fast_device(8)).splits(), 1);
  Shaped fewer(1, 1, 32768, 64, 8, 128);
  EXPECT_GT(plan_of(fewer.get(), image, fast_device(8)).splits(), 8);
}

/// No split is without keys when all sequences have as many as their bound says.
TEST(Splits, EverySplitHasKeys) {
  reference::Random random(3);
  for (int i = 0; i < 5000; ++i) {
    const int64_t keys = random.between(1, 140000), heads = random.between(1, 16);
    Shaped s(random.between(1, 4), 1, keys, heads, heads, random.one_of(64, 128));
    const ForwardPlan plan = plan_of(s.get(), image_of("mma", int(s.attention.head_dim)), fast_device(double(i % 30)));
    const int64_t blocks = (keys + plan.kernel().tile.keys - 1) / plan.kernel().tile.keys;
    const int64_t each = (blocks + plan.splits() - 1) / plan.splits();
    ASSERT_LT((plan.splits() - 1) * each, blocks) << keys << " keys, " << plan.splits() << " splits";
    ASSERT_LE(plan.splits(), 2 * 132);
  }
}

/// The time of the slowest multiprocessor in blocks of keys, and the mean.
std::pair<double, double> slowest_and_mean(const SplitProblem &w, const SplitChoice &choice, const Device &device) {
  const int64_t split = w.tiles - choice.unsplit_tiles, of_split = blocks_of_split(w, choice.splits);
  const auto waves = [&](int64_t blocks) { return (blocks + device.sm_count - 1) / device.sm_count; };
  const int64_t slowest = waves(choice.unsplit_tiles) * w.key_blocks + waves(split * choice.splits) * of_split;
  return {double(slowest), double(w.tiles * w.key_blocks) / device.sm_count};
}

/// Long keys: a persistent grid is busy whatever the number of tiles.
TEST(Splits, LongKeysLeaveNoMultiprocessorIdle) {
  kernels::TileConfig tile = {128, 128, 384, 200 << 10};
  tile.persistent = true;
  for (int64_t tiles = 1; tiles < 1000; tiles++) {
    const SplitProblem w = {Entry::plain, tile, tiles, 1024, 1024, true};
    const SplitChoice choice = choose_splits(w, fast_device());
    const auto [slowest, mean] = slowest_and_mean(w, choice, fast_device());
    ASSERT_LE(slowest, 1.25 * mean) << tiles;
    ASSERT_LE(slowest, slowest_and_mean(w, {0, 1}, fast_device()).first) << tiles;
    ASSERT_LE((tiles - choice.unsplit_tiles) * (choice.splits > 1 ? choice.splits : 0), 4 * 132) << tiles;
    ASSERT_EQ(choice.unsplit_tiles % 132, 0) << tiles;
  }
  const SplitProblem one_more = {Entry::plain, tile, 133, 1024, 1024, true};
  EXPECT_EQ(choose_splits(one_more, fast_device()).unsplit_tiles, 132);
  const SplitProblem short_keys = {Entry::plain, tile, 133, 4, 4, true},
                     many = {Entry::plain, tile, 133 * 40, 64, 64, true};
  for (const SplitProblem &whole : {short_keys, many}) EXPECT_EQ(choose_splits(whole, fast_device()).splits, 1);
}

/// Splits share out all keys of a sequence. Where a window leaves one of them all keys that are attended, the others
/// have nothing to do, and combining costs a kernel.
TEST(Splits, NoneForTheKeysOfAWindow) {
  const KernelSet image = image_of("mma", 128);
  const auto splits_of = [&](void (*change)(Attention *)) {
    Shaped s(8, 1, 32768, 64, 8, 128);
    s.attention.mask = FA_MASK_CAUSAL;
    change(&s.attention);
    return plan_of(s.get(), image, fast_device()).splits();
  };
  const int32_t all = splits_of([](Attention *) {});
  EXPECT_GT(all, 1);
  EXPECT_EQ(splits_of([](Attention *a) { a->window_left = 1023; }), 1);
  EXPECT_EQ(splits_of([](Attention *a) { a->chunk = 2048; }), 1);
  EXPECT_EQ(splits_of([](Attention *a) { a->mask = FA_MASK_NONE, a->window_left = a->window_right = 500; }), 1);
  EXPECT_EQ(splits_of([](Attention *a) { a->mask = FA_MASK_NONE, a->window_left = 500; }), all);
  EXPECT_GT(splits_of([](Attention *a) { a->window_left = 20000; }), 1);
}

/// Which calls have tiles of about the same time: their last ones alone are split.
TEST(Splits, OfEvenTilesWithTensorMaps) {
  const KernelSet kernels = image_of("wgmma", 128);
  if (kernels.images[0] == nullptr) GTEST_SKIP() << "this build has no wgmma";
  if (machine().driver.cuTensorMapEncodeTiled == nullptr)
    GTEST_SKIP() << "no driver makes tensor maps: cuda_plan.maps does";
  const auto loops_of = [&](int64_t queries, void (*change)(Shaped *)) {
    Shaped s(1, queries, 65536, 40, 8, 128);  // 160 tiles
    s.problem.batch_k = 1;
    change(&s);
    const ForwardPlan plan = plan_of(s.get(), kernels, fast_device());
    EXPECT_LE(number(plan.workspace.bytes()), bound_of(s.get(), kernels, fast_device()));
    EXPECT_EQ(plan.tiles(), plan.loop[0].tiles + (plan.loop_count > 1 ? plan.loop[1].tiles : 0));
    return plan.loop_count;
  };
  EXPECT_EQ(loops_of(512, [](Shaped *) {}), 2);
  EXPECT_EQ(loops_of(512, [](Shaped *s) { s->attention.mask = FA_MASK_CAUSAL; }), 2);
  EXPECT_EQ(loops_of(512, [](Shaped *s) { s->attention.mask = FA_MASK_CAUSAL_TOP_LEFT; }), 1);
  EXPECT_EQ(loops_of(512, [](Shaped *s) { s->attention.window_left = 1000; }), 1);
  EXPECT_EQ(loops_of(512, [](Shaped *s) { s->problem.num_splits = 1; }), 1);
  static const int32_t some = 0;
  EXPECT_EQ(loops_of(512, [](Shaped *s) { s->problem.seqused_k = &some; }), 2);
  EXPECT_EQ(loops_of(512, [](Shaped *s) { s->problem.cu_seqlens_q = &some; }), 1);
}

TEST(Splits, SplitCountsFollowTheDevicesSize) {
  const KernelSet image = image_of("mma", 64);
  Shaped s(1, 1, 32768, 32, 8, 64);
  int32_t before = 0;
  for (const int sms : {2, 14, 40, 108, 148}) {
    const int32_t splits = plan_of(s.get(), image, device_of(sms)).splits();
    EXPECT_GE(splits, before) << sms;
    before = splits;
  }
}

TEST(Splits, BatchInvarianceFixesTheSplit) {
  const KernelSet image = image_of("mma", 64);
  for (const int64_t queries : {1, 300}) {
    for (const int64_t batch : {1, 50}) {
      Shaped s(batch, queries, 10000, 8, 2, 64);
      s.attention.batch_invariant = true;
      const ForwardPlan plan = plan_of(s.get(), image, device_of(108));
      EXPECT_EQ(plan.loop[0].schedule.split_keys, invariant_split_keys);
      EXPECT_EQ(plan.splits(), 10);
      EXPECT_EQ(plan.kernel().entry, Entry::split);
    }
  }
}

/// A single kernel's results may differ from combined ones in their last bit, and how many splits there are follows
/// from bounds: there are two of the shortest sequence.
TEST(Splits, BatchInvarianceHasTwoSplitsAtLeast) {
  for (const int64_t keys : {0, 1, 1024, 1025}) {
    Shaped s(2, 300, keys, 8, 2, 64);
    s.attention.batch_invariant = true;
    EXPECT_EQ(plan_of(s.get(), image_of("mma", 64), device_of(108)).splits(), 2) << keys;
  }
}

}  // namespace
}  // namespace fa::cuda
