// Plans, from inside: what a call is cut into, and that the workspace it asks for is enough.
#include "cuda/plan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cuda/derive.h"
#include "cuda/launch.h"
#include "cuda/module.h"
#include "reference/random.h"
#include "mma/tiles.h"
#include "tcgen05/tiles.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

/// The narrowest image of a family that serves this head dimension, of any architecture.
ForwardKernels image_of(const char *family, int dim) {
  const Image *found = nullptr;
  for (const Image &image : images())
    if (std::strcmp(image.family_name, family) == 0 && image.dim >= dim && (!found || image.dim < found->dim))
      found = &image;
  return {{found}, 1};
}

Device device_of(int sm_count) {
  Device device = {};
  device.capability = 80;
  device.sm_count = sm_count;
  device.shared_per_block = 163 << 10;
  device.shared_per_sm = 164 << 10;
  device.threads_per_sm = 2048;
  return device;
}

/// As an H200: its memory delivers more than one block of a decode gets through.
Device fast_device(double memory_rate = 18.4) {
  Device device = device_of(132);
  device.capability = 90;
  device.shared_per_block = 227 << 10;
  device.shared_per_sm = 228 << 10;
  device.memory_rate = memory_rate;
  return device;
}

/// Contiguous q, k, v and out in (batch, row, head, dim) order, of f16.
struct Shaped {
  Attention attention;
  ForwardCall problem;

  Shaped(int64_t batch, int64_t rows_q, int64_t rows_k, int64_t heads_q, int64_t heads_kv, int64_t dim) {
    attention.q_dtype = attention.kv_dtype = attention.out_dtype = FA_F16;
    attention.head_dim = attention.head_dim_v = dim;
    attention.scale = 0.125f;
    problem.batch = batch, problem.heads_q = heads_q, problem.heads_kv = heads_kv;
    problem.rows_q = problem.max_seqlen_q = rows_q;
    problem.rows_k = problem.max_seqlen_k = rows_k;
    const auto view = [&](int64_t rows, int64_t heads) {
      View v;
      v.data = reinterpret_cast<char *>(uintptr_t{4096});
      v.dtype = FA_F16;
      const int64_t row = heads * dim * 2;
      v.stride[0] =
          static_cast<int64_t>(static_cast<uint64_t>(rows) * static_cast<uint64_t>(row));  // not stepped where packed
      v.stride[1] = row, v.stride[2] = dim * 2, v.stride[3] = 2;
      return v;
    };
    problem.q = problem.out = view(rows_q, heads_q);
    problem.k = problem.v = view(rows_k, heads_kv);
  }

  const ForwardCall &get() {
    problem.attention = &attention;
    return problem;
  }
};

TEST(Plan, PlainCallsTakeThePlainEntry) {
  const ForwardKernels image = image_of("mma", 64);
  const Device device = device_of(108);
  const auto entry_after = [&](auto change) {
    Shaped s(2, 4096, 4096, 16, 16, 64);
    change(s);
    return plan_of(s.get(), image, device).entry;
  };
  EXPECT_EQ(entry_after([](Shaped &) {}), Entry::plain);
  EXPECT_EQ(entry_after([](Shaped &s) { s.attention.mask = FA_MASK_CAUSAL; }), Entry::plain);
  EXPECT_EQ(entry_after([](Shaped &s) { s.problem.lse = s.problem.sinks = s.problem.q; }), Entry::plain);
  EXPECT_EQ(entry_after([](Shaped &s) { s.attention.chunk = kernels::mma::longest_chunk; }), Entry::plain);
  EXPECT_EQ(entry_after([](Shaped &s) { s.attention.chunk = kernels::mma::longest_chunk + 1; }), Entry::general);
  EXPECT_EQ(entry_after([](Shaped &s) { s.attention.scale = -1; }), Entry::general);
  EXPECT_EQ(entry_after([](Shaped &s) { s.attention.scale = 1e-40f; }), Entry::general);
  EXPECT_EQ(entry_after([](Shaped &s) { s.problem.bias = s.problem.q; }), Entry::general);
  EXPECT_EQ(entry_after([](Shaped &s) { s.problem.mask = s.problem.q; }), Entry::general);
  EXPECT_EQ(entry_after([](Shaped &s) { s.problem.k.data += 8; }), Entry::general);
  EXPECT_EQ(entry_after([](Shaped &s) { s.problem.v.stride[1] += 2; }), Entry::general);
  EXPECT_EQ(entry_after([](Shaped &s) { s.problem.out.stride[3] = 4; }), Entry::general);
  for (View ForwardCall::*rows : {&ForwardCall::k, &ForwardCall::v}) {
    for (const int64_t sign : {1, -1}) {
      constexpr int64_t far = int64_t{1} << 24;
      EXPECT_EQ(entry_after([=](Shaped &s) { (s.problem.*rows).stride[1] = sign * (far - 16); }), Entry::plain);
      EXPECT_EQ(entry_after([=](Shaped &s) { (s.problem.*rows).stride[1] = sign * far; }), Entry::general);
    }
  }
  EXPECT_EQ(entry_after([](Shaped &s) { s.attention.head_dim = 60; }), Entry::general);
  EXPECT_EQ(entry_after([](Shaped &s) { s.attention.batch_invariant = true; }), Entry::split);
}

TEST(Plan, PagesCapsAndSlopesTakeTheFeaturedEntry) {
  const Device device = device_of(108);
  const auto entry_after = [&](int dim, auto change) {
    Shaped s(2, 4096, 4096, 16, 16, dim);
    change(s);
    return plan_of(s.get(), image_of("mma", dim), device).entry;
  };
  const auto page = [](Shaped &s) { s.problem.page_size = 16; };
  const auto cap = [](Shaped &s) { s.attention.softcap = 50; };
  const auto slope = [](Shaped &s) { s.problem.alibi_slopes = s.problem.q; };
  for (const int dim : {32, 64, 96, 128, 192, 256}) {
    EXPECT_EQ(entry_after(dim, page), Entry::score_mod);
    EXPECT_EQ(entry_after(dim, cap), Entry::score_mod);
    EXPECT_EQ(entry_after(dim, slope), Entry::score_mod);
    EXPECT_EQ(entry_after(dim, [&](Shaped &s) { page(s), cap(s), slope(s), s.problem.sinks = s.problem.q; }),
              Entry::score_mod);
  }
  EXPECT_EQ(entry_after(64, [&](Shaped &s) { page(s), s.problem.k.data += 8; }), Entry::general);
  EXPECT_EQ(entry_after(64, [&](Shaped &s) { page(s), s.problem.k.stride[1] = 1 << 24; }), Entry::general);
  EXPECT_EQ(entry_after(64, [&](Shaped &s) { cap(s), s.problem.bias = s.problem.q; }), Entry::general);
  EXPECT_EQ(entry_after(64, [&](Shaped &s) { cap(s), s.attention.scale = -1; }), Entry::general);
  for (const float softcap : {1e-45F, 1e-35F, 257.F, 1e30F})
    EXPECT_EQ(entry_after(64, [=](Shaped &s) { s.attention.softcap = softcap; }), Entry::general) << softcap;
  EXPECT_EQ(entry_after(64, [&](Shaped &s) { slope(s), s.attention.scale = 1e-13F; }), Entry::general);
}

/// The sums of steps are those of strides for every row; calls of which 32 bits do not hold them stay general.
TEST(Plan, RowsOfKeysAreCountedIn32Bits) {
  const auto plan_with = [](int64_t entries, int64_t page_size, int64_t entry, int64_t k_row, int64_t v_row) {
    Shaped s(1, 4096, 4096, 16, 16, 64);
    ForwardCall &p = s.problem;
    p.batch_k = entries, p.page_size = page_size, p.rows_k = 4096, s.attention.softcap = 50;
    p.k.stride[0] = entry, p.v.stride[0] = -entry, p.k.stride[1] = k_row, p.v.stride[1] = v_row;
    return plan_of(s.get(), image_of("mma", 64), device_of(108));
  };
  const auto expect = [&](Entry expected, int64_t entries, int64_t page_size, int64_t entry, int64_t k_row,
                          int64_t v_row) {
    const Plan plan = plan_with(entries, page_size, entry, k_row, v_row);
    EXPECT_EQ(plan.entry, expected) << entries << " entries " << entry << " bytes apart, rows " << k_row;
    const kernels::Params &p = plan.params;
    EXPECT_EQ(p.stride_unit != 0, expected == Entry::score_mod);
    if (p.stride_unit == 0) return;
    EXPECT_EQ(int64_t{p.k_steps.row} * p.stride_unit, k_row);
    EXPECT_EQ(int64_t{p.v_steps.row} * p.stride_unit, v_row);
    EXPECT_EQ(int64_t{p.k_steps.entry} * p.stride_unit, entries > 1 ? entry : 0);
    EXPECT_EQ(int64_t{p.v_steps.entry} * p.stride_unit, entries > 1 ? -entry : 0);
  };
  constexpr int64_t far = int64_t{1} << 31;
  expect(Entry::score_mod, 1000, 16, 16 * 384, 384, -384);
  expect(Entry::score_mod, 44739242, 16, 16 * 384, 384, 384);  // 275 GB of pages, in units of 128
  expect(Entry::general, 44739243, 16, 16 * 384, 384, 384);
  expect(Entry::score_mod, 1000, 0, 4096 * 384, 384, 0);
  expect(Entry::score_mod, 2, 0, (far - 4096) * 16, 16, 16);
  expect(Entry::general, 2, 0, (far - 4094) * 16, 16, 16);
  expect(Entry::score_mod, 1, 0, int64_t{1} << 62, 16, 16);  // of one entry the stride does not matter
  expect(Entry::general, 2, 0, int64_t{1} << 62, 16, 16);
  expect(Entry::general, 3, 16, int64_t{-1} << 35, -48, 16);

  Shaped s(1, 4096, 4096, 16, 16, 64);
  s.problem.page_size = 16, s.problem.block_table.stride[1] = int64_t{1} << 31;
  EXPECT_EQ(plan_of(s.get(), image_of("mma", 64), device_of(108)).entry, Entry::general);
}

TEST(Plan, DecodePacksHeadsAndSplitsKeys) {
  const ForwardKernels image = image_of("mma", 64);
  Shaped s(1, 1, 32768, 32, 8, 64);
  const Plan plan = plan_of(s.get(), image, device_of(108));
  EXPECT_EQ(plan.entry, Entry::decode);
  EXPECT_EQ(plan.params.schedule.heads_per_tile, 4);
  EXPECT_EQ(plan.tiles, 8);
  EXPECT_GE(plan.splits() * plan.tiles, 85);
  EXPECT_LE(plan.splits() * plan.tiles, 108);  // one block a multiprocessor has enough on its way
  Shaped many(64, 1, 32768, 32, 8, 64);
  EXPECT_EQ(plan_of(many.get(), image, device_of(108)).splits(), 1);
  Shaped few_keys(1, 1, 64, 32, 8, 64);
  EXPECT_EQ(plan_of(few_keys.get(), image, device_of(108)).splits(), 1);
}

TEST(Plan, FewRowsHaveATileOfTheirOwn) {
  const auto entry_of = [](const char *family, int64_t batch, int64_t queries, int64_t heads_kv, bool invariant) {
    Shaped s(batch, queries, 4096, 8, heads_kv, 64);
    s.attention.batch_invariant = invariant;
    return plan_of(s.get(), image_of(family, 64), device_of(108)).entry;
  };
  EXPECT_EQ(entry_of("mma", 1, 1, 8, false), Entry::decode);
  EXPECT_EQ(entry_of("mma", 500, 1, 8, false), Entry::decode);  // not split
  EXPECT_EQ(entry_of("mma", 1, 16, 8, false), Entry::decode);
  EXPECT_EQ(entry_of("mma", 1, 17, 8, false), Entry::split);
  EXPECT_EQ(entry_of("mma", 1, 4, 2, false), Entry::decode);  // 16 rows of a group's heads
  EXPECT_EQ(entry_of("mma", 1, 5, 2, false), Entry::split);
  EXPECT_EQ(entry_of("mma", 1, 1, 8, true), Entry::split);
  EXPECT_EQ(entry_of("simt", 1, 1, 8, false), Entry::split);
}

TEST(Plan, MemoryAsFastAsABlockGetsTwo) {
  const ForwardKernels image = image_of("mma", 128);
  const auto blocks_of = [&](const Device &device) {
    Shaped s(1, 1, 131072, 8, 1, 128);
    const Plan plan = plan_of(s.get(), image, device);
    EXPECT_LE(plan.partial_bytes, workspace_bound(s.get(), image, device));
    return plan.splits() * plan.tiles;
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
TEST(Plan, FullDevicesAreSplitForFastMemoryAlone) {
  const ForwardKernels image = image_of("mma", 128);
  Shaped s(16, 1, 32768, 64, 8, 128);
  EXPECT_EQ(plan_of(s.get(), image, fast_device(14)).splits(), 1);
  EXPECT_EQ(plan_of(s.get(), image, fast_device(28)).splits(), 2);
}

/// Few multiprocessors may be enough for the memory: the others would only cost a second kernel.
TEST(Plan, MemoryThatIsBusyIsNotSplitFor) {
  const ForwardKernels image = image_of("mma", 128);
  Shaped s(10, 1, 32768, 64, 8, 128);  // 80 tiles
  EXPECT_EQ(plan_of(s.get(), image, fast_device(8)).splits(), 1);
  Shaped fewer(1, 1, 32768, 64, 8, 128);
  EXPECT_GT(plan_of(fewer.get(), image, fast_device(8)).splits(), 8);
}

/// No split is without keys when all sequences have as many as their bound says.
TEST(Plan, EverySplitHasKeys) {
  reference::Random random(3);
  for (int i = 0; i < 5000; ++i) {
    const int64_t keys = random.between(1, 140000), heads = random.between(1, 16);
    Shaped s(random.between(1, 4), 1, keys, heads, heads, random.one_of(64, 128));
    const Plan plan = plan_of(s.get(), image_of("mma", int(s.attention.head_dim)), fast_device(double(i % 30)));
    const int64_t blocks = (keys + plan.tile.keys - 1) / plan.tile.keys;
    const int64_t each = (blocks + plan.splits() - 1) / plan.splits();
    ASSERT_LT((plan.splits() - 1) * each, blocks) << keys << " keys, " << plan.splits() << " splits";
    ASSERT_LE(plan.splits(), 2 * 132);
  }
}

TEST(Plan, SplitCountsFollowTheDevicesSize) {
  const ForwardKernels image = image_of("mma", 64);
  Shaped s(1, 1, 32768, 32, 8, 64);
  int32_t before = 0;
  for (const int sms : {2, 14, 40, 108, 148}) {
    const int32_t splits = plan_of(s.get(), image, device_of(sms)).splits();
    EXPECT_GE(splits, before) << sms;
    before = splits;
  }
}

TEST(Plan, BatchInvarianceFixesTheSplit) {
  const ForwardKernels image = image_of("mma", 64);
  for (const int64_t queries : {1, 300}) {
    for (const int64_t batch : {1, 50}) {
      Shaped s(batch, queries, 10000, 8, 2, 64);
      s.attention.batch_invariant = true;
      const Plan plan = plan_of(s.get(), image, device_of(108));
      EXPECT_EQ(plan.params.schedule.split_keys, invariant_split_keys);
      EXPECT_EQ(plan.splits(), 10);
      EXPECT_EQ(plan.entry, Entry::split);
    }
  }
}

/// A single kernel's results may differ from combined ones in their last bit, and how many splits there are follows
/// from bounds: there are two of the shortest sequence.
TEST(Plan, BatchInvarianceHasTwoSplitsAtLeast) {
  for (const int64_t keys : {0, 1, 1024, 1025}) {
    Shaped s(2, 300, keys, 8, 2, 64);
    s.attention.batch_invariant = true;
    EXPECT_EQ(plan_of(s.get(), image_of("mma", 64), device_of(108)).splits(), 2) << keys;
  }
}

/// A problem of random size, packed or not, whose bounds a test may raise.
Shaped random_shape(reference::Random *random) {
  const int64_t heads_kv = random->between(1, 9), group = random->one_of(1, 2, 4, 7);
  const bool decode = random->chance(50);
  Shaped s(random->between(1, 70), decode ? random->between(1, 4) : random->between(1, 5000), random->between(0, 40000),
           heads_kv * group, heads_kv, random->one_of(8, 64, 100));
  static const int32_t cumulative = 0;
  if (random->chance(30)) {
    s.problem.cu_seqlens_q = &cumulative;
    s.problem.max_seqlen_q = random->between(1, s.problem.rows_q);
  }
  s.attention.batch_invariant = random->chance(20);
  if (!s.attention.batch_invariant && random->chance(50)) s.problem.num_splits = int32_t(random->between(1, 1024));
  return s;
}

TEST(Plan, TheWorkspaceOfAPlanIsEnoughAndItsGridIsLegal) {
  reference::Random random(1);
  for (int i = 0; i < 20000; ++i) {
    Shaped s = random_shape(&random);
    const ForwardKernels image = image_of(random.chance(50) ? "mma" : "simt", 100);
    Device device = device_of(int(random.between(1, 200)));
    device.memory_rate = random.one_of(0, 8, 18, 28);
    const Plan plan = plan_of(s.get(), image, device);
    ASSERT_LE(plan.partial_bytes, workspace_bound(s.get(), image, device)) << i;
    ASSERT_GE(plan.tiles, 1);
    ASSERT_GE(plan.launch_tiles, 1);
    ASSERT_LE(plan.launch_tiles * plan.splits(), 0x7fffffff);
    ASSERT_GE(plan.launches() * plan.launch_tiles, plan.tiles);
    ASSERT_TRUE(s.problem.num_splits == 0 || plan.splits() <= s.problem.num_splits);
    if (plan.splits() > 1) {
      ASSERT_TRUE(plan.entry == Entry::split || plan.entry == Entry::decode);
      ASSERT_EQ(plan.partial_bytes, plan.splits() * plan.launch_tiles * plan.tile.rows * (s.attention.head_dim_v + 2) *
                                        int64_t{sizeof(float)});
    }
  }
}

// [F128]
TEST(Plan, TheWorkspaceNeverFallsWhenABoundRises) {
  reference::Random random(2);
  for (int i = 0; i < 5000; ++i) {
    Shaped s = random_shape(&random);
    const ForwardKernels image = image_of(random.chance(50) ? "mma" : "simt", 100);
    Device device = device_of(int(random.between(1, 200)));
    device.memory_rate = random.one_of(0, 8, 18, 28);
    for (int bound = 0; bound < 4; ++bound) {
      Shaped larger = s;
      ForwardCall &p = larger.problem;
      int64_t before = workspace_bound(s.get(), image, device);
      for (int step = 0; step < 6; ++step) {
        if (bound == 0) p.batch += random.between(1, 20);
        if (bound == 1) p.rows_q += 100, p.max_seqlen_q = p.cu_seqlens_q ? p.max_seqlen_q : p.rows_q;
        if (bound == 2) p.max_seqlen_k = p.rows_k += random.between(1, 5000);
        if (bound == 3) {
          if (p.num_splits == 0 || p.num_splits >= 1000) break;
          p.num_splits += int32_t(random.between(1, 20));
        }
        const int64_t bytes = workspace_bound(larger.get(), image, device);
        ASSERT_GE(bytes, before) << i << " bound " << bound;
        before = bytes;
      }
    }
  }
}

/// The workspace is bounded by the device, or by what is worked on in turn, however large the legal shapes are.
TEST(Plan, TheWorkspaceOfExtremeShapesIsBounded) {
  constexpr int64_t longest = INT32_MAX;
  const ForwardKernels image = image_of("simt", 576);
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
          const int64_t bytes = workspace_bound(s.get(), image, device_of(108));
          ASSERT_LE(bytes, std::max(most_partial_bytes, int64_t{longest / 1024 + 1} * tile)) << batch << " x " << heads;
          ASSERT_GE(bytes, heads == 1 ? 1 : before) << batch << " x " << heads;
          before = bytes;
        }
      }
    }
  }
}

/// A grid has a block a work; a persistent one as many as the device holds; one of clusters is whole.
TEST(Plan, GridsFollowTheTile) {
  const Device device = device_of(10);
  Launch launch = {};
  launch.blocks = 25;
  EXPECT_EQ(grid_of(launch, device), 25);
  launch.tile.cluster = 2;
  EXPECT_EQ(grid_of(launch, device), 26);
  launch.tile.persistent = true;
  EXPECT_EQ(grid_of(launch, device), 10);
  launch.tile.min_blocks_per_sm = 2;
  EXPECT_EQ(grid_of(launch, device), 20);
  launch.blocks = 3;
  EXPECT_EQ(grid_of(launch, device), 4);
}

/// A build has one of them, whose tiles are checked as it is compiled; here are those of the others.
TEST(Plan, EveryPresetOfTensorMemoryFits) {
  using namespace kernels::tcgen05;
  using kernels::Preset;
  for (const Preset preset : {Preset::standard, Preset::little, Preset::mufu, Preset::tenth, Preset::fifth})
    for (const int dim : {64, 96, 128, 192, 256})
      for (const Entry entry : {Entry::plain, Entry::narrow}) {
        if (entry == Entry::narrow && !has_narrow(dim)) continue;
        const Shape s = shape_of(preset, 100, dim, entry);
        const int dim_v = columns_of_values(dim, entry);
        EXPECT_LE(shared_bytes(s, dim, dim_v), 227 << 10) << int(preset) << " " << dim;
        EXPECT_LE(2 * s.keys + s.queries * dim_v, tensor_columns) << int(preset) << " " << dim;
        EXPECT_EQ(s.keys % 32, 0) << int(preset) << " " << dim;  // columns that a warp reads at a time
        EXPECT_LE(128 * (s.softmax_registers * s.queries + s.correction_registers + s.other_registers), 64 << 10);
      }
}

/// Partial results are bounded however long the sequences are: the rest is done in turns.
TEST(Plan, LongCallsAreDoneInTurns) {
  Shaped s(1, 131072, 131072, 8, 8, 128);
  s.attention.batch_invariant = true;
  const ForwardKernels image = image_of("mma", 128);
  const Plan plan = plan_of(s.get(), image, device_of(108));
  EXPECT_EQ(plan.splits(), 128);
  EXPECT_GT(plan.launches(), 1);
  EXPECT_LE(workspace_bound(s.get(), image, device_of(108)), most_partial_bytes);
}

/// One tile's own may be more than the bound of a launch: it is done by itself, with the memory that it takes.
TEST(Plan, ATileOfManySplitsHasItsMemory) {
  Shaped s(1, 40, 131072, 2, 2, 256);
  s.problem.num_splits = 1024;
  const ForwardKernels image = image_of("mma", 256);
  const Plan plan = plan_of(s.get(), image, device_of(108));
  EXPECT_EQ(plan.splits(), 1024);
  EXPECT_EQ(plan.launch_tiles, 1);
  EXPECT_GT(plan.partial_bytes, most_partial_bytes);
  EXPECT_GE(workspace_bound(s.get(), image, device_of(108)), plan.partial_bytes);
}

/// On an A100, of 164 KB: a kilobyte of each block is the system's.
TEST(Carveout, IsAskedForWhereBlocksFitOnlyExactly) {
  const Device device = device_of(108);
  const auto asked = [&](int kilobytes, int blocks = 1) {
    kernels::TileConfig tile = {};
    tile.shared_bytes = kilobytes << 10;
    tile.min_blocks_per_sm = blocks;
    return carveout_of(tile, device);
  };
  EXPECT_EQ(asked(81), 100);
  EXPECT_EQ(asked(82), 0) << "only one block fits";
  EXPECT_EQ(asked(71), 100);
  EXPECT_EQ(asked(70), 0) << "there is room left";
  EXPECT_EQ(asked(53), 0);
  EXPECT_EQ(asked(53, 3), 100);
  EXPECT_EQ(asked(160), 0);
  EXPECT_EQ(asked(0), 0);
}

}  // namespace
}  // namespace fa::cuda
