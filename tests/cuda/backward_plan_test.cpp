// Plans of backward calls, from inside: which kernels in which order, their grids, and the workspace.
#include "cuda/backward_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/status.h"
#include "cuda/order.h"
#include "reference/random.h"

namespace fa::cuda {
namespace {

using kernels::Entry;
using kernels::TileConfig;

/// The images of an op of f32.
KernelSet scalar_images() {
  KernelSet gradients;
  for (const Image &image : images()) {
    if (std::strcmp(image.family_name, "delta") == 0) gradients.shared = &image;
    if (std::strcmp(image.family_name, "backward_simt") == 0) gradients.images[0] = &image;
  }
  gradients.count = 1;
  return gradients;
}

/// Bytes of the workspace of a call in a fixed order, in addition to those of its rows.
constexpr int64_t of_tickets = 256;

Device small_device() {
  Device device = {};
  device.sm_count = 108, device.threads_per_sm = 2048, device.shared_per_sm = 164 << 10, device.l2_bytes = 40 << 20;
  return device;
}

/// A call of f32 that wants every gradient; the addresses of its tensors do not matter.
struct Shaped {
  Attention attention;
  BackwardCall call;

  Shaped(int64_t batch, int64_t rows_q, int64_t rows_k, int64_t heads_q, int64_t heads_kv, int64_t dim) {
    attention.head_dim = attention.head_dim_v = dim;
    call.batch = call.batch_k = batch, call.heads_q = heads_q, call.heads_kv = heads_kv;
    call.rows_q = call.max_seqlen_q = rows_q;
    call.rows_k = call.max_seqlen_k = rows_k;
    for (View *view : {&call.q, &call.k, &call.v, &call.out, &call.lse, &call.dout, &call.dq, &call.dk, &call.dv})
      view->data = reinterpret_cast<char *>(uintptr_t{4096}), view->dtype = FA_F32;
  }

  const BackwardCall &get() {
    call.attention = &attention;
    return call;
  }
};

std::vector<Entry> entries_of(const BackwardPlan &plan) {
  std::vector<Entry> entries;
  for (const LaunchLoop &loop : plan.loops()) entries.push_back(loop.kernels[0].entry);
  return entries;
}

// [F175]
TEST(BackwardPlan, HasAKernelForWhatIsWanted) {
  Shaped s(2, 100, 200, 4, 2, 64);
  const auto entries = [&] { return entries_of(plan_of(s.get(), scalar_images(), small_device())); };
  EXPECT_EQ(entries(), (std::vector{Entry::delta, Entry::dkv, Entry::dq}));
  s.call.dk.data = nullptr;
  EXPECT_EQ(entries(), (std::vector{Entry::delta, Entry::dkv, Entry::dq}));
  s.call.dv.data = nullptr;
  EXPECT_EQ(entries(), (std::vector{Entry::delta, Entry::dq}));
  s.call.dq.data = nullptr;
  s.call.dbias = s.call.dsinks = s.call.q;
  s.call.dbias_shape[0] = s.call.dbias_shape[1] = 1, s.call.dbias_shape[2] = 100, s.call.dbias_shape[3] = 200;
  s.call.dsinks_batch = 1;
  EXPECT_EQ(entries(), (std::vector{Entry::delta, Entry::dsinks, Entry::dbias}));
}

bool is_of_tensor_cores(const Image &image) {
  return std::strcmp(image.family_name, "backward_mma") == 0;
}

/// The families on tensor cores, then the fallback.
KernelSet images_with(const Image &image) {
  KernelSet gradients = scalar_images();
  gradients.images[1] = gradients.images[0];
  gradients.images[0] = &image;
  gradients.count = 2;
  return gradients;
}

/// The images of an A100 for 64 columns; where they are not built, the fallback.
KernelSet images_of(kernels::Dtype dtype) {
  for (const Image &image : images())
    if (image.arch->number == 80 && is_of_tensor_cores(image) && image.dtype == dtype && image.dim == 64)
      return images_with(image);
  return scalar_images();
}

/// A call of 16 bits, with strides of whole copies.
struct Shaped16 : Shaped {
  Shaped16(int64_t batch, int64_t rows_q, int64_t rows_k, int64_t heads_q, int64_t heads_kv, int64_t dim = 64,
           fa_dtype type = FA_BF16)
      : Shaped(batch, rows_q, rows_k, heads_q, heads_kv, dim) {
    for (View *view : {&call.q, &call.k, &call.v, &call.dout, &call.out})
      *view = {view->data, {1 << 30, 1 << 13, 2 * dim, 2}, type};
    attention.q_dtype = attention.kv_dtype = type, attention.scale = 0.125F;
  }
};

/// All gradients in one loop, where blocks of keys do not wait long for one another, or need not: where a head's tiles
/// are at work at once, as those of a single head are, they do. A batch's size decides nothing.
// [F52] [F186]
TEST(BackwardPlan, HasAFixedOrderWhereWaitsAreShort) {
  const KernelSet gradients = images_of(kernels::bf16);
  if (gradients.count < 2) GTEST_SKIP() << "no kernels for SM 80 in this build";
  Device device = small_device();
  device.shared_per_block = 163 << 10;
  const std::vector together = {Entry::delta, Entry::bwd_fused, Entry::dq_postprocess};
  const std::vector apart = {Entry::delta, Entry::dkv, Entry::dq};
  for (const int64_t batch : {1, 64}) {
    Shaped16 many(batch, 8192, 8192, 32, 32), one(batch, 8192, 8192, 1, 1), shared(batch, 8192, 8192, 64, 8);
    const auto plan = [&](Shaped &s) { return plan_of(s.get(), gradients, device); };
    const auto bytes = [&](Shaped &s) { return workspace_bound(s.get(), gradients, device); };
    EXPECT_EQ(entries_of(plan(many)), together);
    EXPECT_TRUE(plan(many).fixed_order);
    EXPECT_EQ(entries_of(plan(shared)), together);
    EXPECT_EQ(entries_of(plan(one)), apart);
    const int64_t rows = batch * 32 * 8192;
    EXPECT_TRUE(bytes(many) == Count(rows * (8 + 64 * 4) + rows / 16 * 4 + of_tickets));
    one.attention.nondeterministic = true;
    EXPECT_EQ(entries_of(plan(one)), together);
    EXPECT_FALSE(plan(one).fixed_order);
    EXPECT_TRUE(bytes(one) == Count(batch * 8192 * (8 + 64 * 4)));
    many.attention.batch_invariant = true;
    EXPECT_EQ(entries_of(plan(many)), apart);
    EXPECT_TRUE(bytes(many) == Count(rows * 8));
    many.attention.batch_invariant = false;
    many.attention.softcap = 1;  // never in one loop: no memory for its sums
    EXPECT_TRUE(bytes(many) == Count(rows * 8));
    many.attention.softcap = 0, many.attention.kv_dtype = FA_F16;
    EXPECT_TRUE(bytes(many) == Count(rows * 8));
    shared.call.dv.data = nullptr;
    EXPECT_EQ(entries_of(plan(shared)), apart);
  }
}

/// Also with a single head, where each tile of keys has fewer queries than the one before it, or later ones.
// [F52]
TEST(BackwardPlan, HasAFixedOrderWhereTilesOfKeysDiffer) {
  const KernelSet gradients = images_of(kernels::bf16);
  if (gradients.count < 2) GTEST_SKIP() << "no kernels for SM 80 in this build";
  Device device = small_device();
  device.shared_per_block = 163 << 10;
  Shaped16 square(1, 8192, 8192, 1, 1), few(1, 128, 8192, 1, 1);
  const auto fixed_order = [&](Shaped &s) { return plan_of(s.get(), gradients, device).fixed_order; };
  EXPECT_FALSE(fixed_order(square));
  square.attention.mask = few.attention.mask = FA_MASK_CAUSAL;
  EXPECT_TRUE(fixed_order(square));
  EXPECT_FALSE(fixed_order(few)) << "all of them attend nearly all keys";
  static const int32_t offset = 0;
  square.call.q_offset = &offset;  // which may be any
  EXPECT_FALSE(fixed_order(square));
  square.call.q_offset = nullptr, square.attention.mask = FA_MASK_NONE;
}

/// Under a window, or in chunks, the next tile of keys comes to the same queries later by itself: by one step a head,
/// where an addition takes two. With one head the tiles of a column would follow one another a step apart, however many
/// there are, and other columns have to fill that time.
// [F52]
TEST(BackwardPlan, HasAFixedOrderWhereWindowsSlide) {
  const KernelSet gradients = images_of(kernels::bf16);
  if (gradients.count < 2) GTEST_SKIP() << "no kernels for SM 80 in this build";
  Device device = small_device();
  device.shared_per_block = 163 << 10;
  const auto fixed_order = [&](Shaped16 s, int64_t window, int64_t chunk) {
    s.attention.window_left = window, s.attention.window_right = window < 0 ? -1 : 0, s.attention.chunk = chunk;
    return plan_of(s.get(), gradients, device).fixed_order;
  };
  EXPECT_FALSE(fixed_order({1, 8192, 8192, 1, 1}, 512, 0));
  EXPECT_TRUE(fixed_order({1, 8192, 8192, 2, 1}, 512, 0)) << "two steps apart";
  EXPECT_TRUE(fixed_order({1, 8192, 8192, 64, 64}, 4096, 0)) << "other columns fill the time";
  EXPECT_FALSE(fixed_order({1, 65536, 65536, 4, 4}, -1, 512));
  EXPECT_TRUE(fixed_order({1, 65536, 65536, 32, 4}, -1, 512));
}

/// The reason against one loop is named, where dk or dv and dq come from a pass each. Where the contents of memory
/// cannot change it, no workspace is asked for sums.
TEST(BackwardPlan, SaysWhyThereAreTwoPasses) {
  const KernelSet gradients = images_of(kernels::bf16);
  if (gradients.count < 2) GTEST_SKIP() << "no kernels for SM 80 in this build";
  Device device = small_device();
  device.shared_per_block = 163 << 10;
  Shaped16 of_many_heads(1, 8192, 8192, 32, 32);
  const auto why_of = [](Shaped16 &s, const KernelSet &its, const Device &on) {
    const char *why = plan_of(s.get(), its, on).why_two_passes;
    return std::string(why != nullptr ? why : "");
  };
  static const int32_t row = 0;
  struct Way {
    const char *why;
    void (*change)(Shaped16 &s);
  };
  const Way never[] = {
      {"a gradient that is not asked for", [](Shaped16 &s) { s.call.dv.data = nullptr; }},
      {"FA_FLAG_BATCH_INVARIANT", [](Shaped16 &s) { s.attention.batch_invariant = true; }},
      {"q, k and v are not of one 16-bit type", [](Shaped16 &s) { s.attention.kv_dtype = FA_F16; }},
      {"q, k and v are not of one 16-bit type",
       [](Shaped16 &s) { s.attention.q_dtype = s.attention.kv_dtype = FA_F32; }},
      {"a softcap or ALiBi", [](Shaped16 &s) { s.attention.softcap = 1; }},
      {"a bias", [](Shaped16 &s) { s.call.bias = s.call.q; }},
      {"a mask", [](Shaped16 &s) { s.call.mask = s.call.q; }},
      {"a softcap or ALiBi", [](Shaped16 &s) { s.call.alibi_slopes = s.call.q; }},
      {"sequences that may share keys", [](Shaped16 &s) { s.call.kv_batch_idx = &row; }},
      {"", [](Shaped16 &s) { s.call.dk.data = s.call.dv.data = nullptr; }},  // one pass
      {"", [](Shaped16 &s) { s.call.dq.data = nullptr; }},
      {"", [](Shaped16 &s) { s.call.rows_q = s.call.max_seqlen_q = 0, s.attention.softcap = 1; }},
  };
  for (const Way &way : never) {
    Shaped16 s = of_many_heads;
    way.change(s);
    EXPECT_EQ(why_of(s, gradients, device), way.why);
    EXPECT_TRUE(workspace_bound(s.get(), gradients, device) == Count(32 * s.call.rows_q * 8)) << way.why;
  }
  const Way at_times[] = {
      {"", [](Shaped16 &) {}},
      {"dout is not of the type of q", [](Shaped16 &s) { s.call.dout.dtype = FA_F32; }},
      {"a fixed order of sums would keep blocks waiting for too long; FA_FLAG_NONDETERMINISTIC does without it",
       [](Shaped16 &s) { s.call.heads_q = s.call.heads_kv = 1; }},
      {"", [](Shaped16 &s) { s.call.heads_q = s.call.heads_kv = 1, s.attention.nondeterministic = true; }},
  };
  for (const Way &way : at_times) {
    Shaped16 s = of_many_heads;
    way.change(s);
    EXPECT_EQ(why_of(s, gradients, device), way.why);
  }
  EXPECT_EQ(why_of(of_many_heads, scalar_images(), device), "no kernel of this type and head dimension has one loop");
  device.shared_per_block = 99 << 10;
  EXPECT_EQ(why_of(of_many_heads, gradients, device), "one loop needs more shared memory than the device has");
}

/// Builds with FA_IMAGE_FILTER may lack the kernels that every call can take.
TEST(BackwardPlan, NamesTheImageThatABuildLacks) {
  const auto expect = [](Shaped &s, const KernelSet &kernels, const std::string &computed, const std::string &image) {
    const BackwardPlan plan = plan_of(s.get(), kernels, small_device());
    EXPECT_EQ(plan.status, FA_ERROR_UNSUPPORTED);
    for (const std::string &text : {"no GPU kernel that computes " + computed + " of this call",
                                    "FA_IMAGE_FILTER is empty or matches the image of " + image})
      EXPECT_NE(std::string(last_error()).find(text), std::string::npos) << last_error();
    log_line(plan);
  };
  Shaped s(2, 100, 200, 4, 2, 64);
  s.call.dbias = s.call.dsinks = s.call.q;
  s.call.dbias_shape[0] = s.call.dbias_shape[1] = 1, s.call.dbias_shape[2] = 100, s.call.dbias_shape[3] = 200;
  s.call.dsinks_batch = 1;
  KernelSet kernels = scalar_images();
  EXPECT_EQ(plan_of(s.get(), kernels, small_device()).status, FA_OK);
  kernels.shared = nullptr;
  expect(s, kernels, "delta", "delta");
  kernels = scalar_images(), kernels.count = 0;
  expect(s, kernels, "dk and dv", "backward_simt");
  s.call.dk.data = s.call.dv.data = nullptr;
  expect(s, kernels, "dq", "backward_simt");
  s.call.dq.data = nullptr;
  expect(s, kernels, "dbias", "backward_simt");

  kernels = images_of(kernels::bf16);
  if (kernels.count < 2) return;  // no kernels for SM 80
  kernels.count = 1;
  Shaped16 of_f32(1, 100, 100, 1, 1);
  EXPECT_EQ(plan_of(of_f32.get(), kernels, small_device()).status, FA_OK);
  of_f32.call.dout.dtype = FA_F32;
  expect(of_f32, kernels, "dk and dv", "backward_simt");
  EXPECT_NE(
      std::string(last_error())
          .find("(cuda.sm_80.backward_mma supports some calls only, and not this one: dout is not of the type of q)"),
      std::string::npos)
      << last_error();
}

/// Under a causal mask few blocks of a column are at work at once, as each is a step behind the one before it and all
/// end together: as few as memory allows. A call without a mask keeps to the size of the L2.
TEST(BackwardPlan, BeginsWithLongTilesOfKeys) {
  Shaped16 s(27, 8192, 8192, 8, 8);
  Device device = small_device();
  TileConfig tile = {};
  tile.keys = 128;
  const auto group = [&] { return key_l2_section(s.get(), device, tile, 108, s.call.batch * s.call.heads_kv); };
  EXPECT_EQ(group(), 9);
  s.attention.mask = FA_MASK_CAUSAL;
  EXPECT_EQ(group(), 36);  // of 108 places: three of a column
  s.call.heads_q = 32;
  EXPECT_EQ(group(), 12) << "a column's blocks take four heads, and wait less: eight of a column";
  s.call.heads_q = 8;
  device.memory_rate = 12.5 / 6;  // six of a column
  EXPECT_EQ(group(), 18);
  tile.keys = 64;  // twelve
  EXPECT_EQ(group(), 9);
  device.l2_bytes = 150 << 20;
  EXPECT_EQ(group(), 36) << "37 columns fit into the L2";
  s.call.batch = 1;
  EXPECT_EQ(group(), 8);
}

/// Every image's head dimension has one loop, but 256 where shared memory is small: there no memory is asked for sums.
// [F52] [F186]
TEST(BackwardPlan, IsOneLoopOfEveryImageThatHasOne) {
  int loops = 0, passes = 0;
  for (const Image &image : images()) {
    if (!is_of_tensor_cores(image)) continue;
    const KernelSet gradients = images_with(image);
    Device device = small_device();
    device.shared_per_block = image.arch->shared_bytes;
    Shaped16 s(2, 8192, 8192, 32, 32, image.dim, image.dtype == kernels::f16 ? FA_F16 : FA_BF16);
    const bool one_loop = image.dim <= 192 || image.arch->shared_bytes >= 163 << 10;
    ++(one_loop ? loops : passes);
    const int64_t rows = 2 * 32 * 8192, sums = one_loop ? 4 * image.dim : 0;
    const bool has_factors = one_loop && image.dtype == kernels::f16;
    const int64_t factors = has_factors ? rows / 128 * int64_t{sizeof(kernels::RowScales)} : 0;
    for (const bool fixed_order : {true, false}) {
      s.attention.nondeterministic = !fixed_order;
      const BackwardPlan plan = plan_of(s.get(), gradients, device);
      const std::vector expected = one_loop ? std::vector{Entry::delta, Entry::bwd_fused, Entry::dq_postprocess}
                                            : std::vector{Entry::delta, Entry::dkv, Entry::dq};
      EXPECT_EQ(entries_of(plan), expected) << image.name << " " << image.dim;
      EXPECT_EQ(plan.fixed_order, one_loop && fixed_order) << image.name << " " << image.dim;
      EXPECT_EQ(plan.why_two_passes == nullptr, one_loop) << image.name << " " << image.dim;
      const int64_t counters = one_loop && fixed_order ? rows / 16 * 4 + of_tickets : 0;
      EXPECT_TRUE(workspace_bound(s.get(), gradients, device) == Count(rows * (8 + sums) + counters + factors))
          << image.name << " " << image.dim;
    }
  }
  if (loops + passes == 0) GTEST_SKIP() << "no kernels of tensor cores in this build";
  EXPECT_GT(loops, 0);
}

/// Without queries dk and dv are still to be written, and without keys dq.
// [F171]
TEST(BackwardPlan, OfEmptyCallsWritesZeros) {
  Shaped no_queries(2, 0, 200, 4, 2, 64), no_keys(2, 100, 0, 4, 2, 64);
  EXPECT_EQ(entries_of(plan_of(no_queries.get(), scalar_images(), small_device())), (std::vector{Entry::dkv}));
  EXPECT_EQ(entries_of(plan_of(no_keys.get(), scalar_images(), small_device())),
            (std::vector{Entry::delta, Entry::dq}));
}

TEST(BackwardPlan, BlocksOwnTheKeysOfEachRowOfTheCache) {
  Shaped s(5, 100, 200, 4, 2, 300);
  const auto keys = [&] { return plan_of(s.get(), scalar_images(), small_device()).loop[1]; };
  const int owned = keys().kernels[0].tile.keys;
  EXPECT_EQ(keys().tiles, 5 * 2 * ((200 + owned - 1) / owned));
  EXPECT_EQ(keys().kernels[0].grid_y, 3) << "of 300 columns a block sums 128";
  static const int32_t rows[5] = {};
  s.call.kv_batch_idx = rows;
  s.call.batch_k = 3, s.call.max_seqlen_k = 50;  // of keys; padding may be before them
  EXPECT_EQ(keys().tiles, 3 * 2 * ((200 + owned - 1) / owned));
}

// [F189] [F190]
TEST(BackwardPlan, TheWorkspaceHoldsTheTermsOfEveryRow) {
  reference::Random random(1);
  static const int32_t cumulative = 0;
  for (int i = 0; i < 2000; ++i) {
    Shaped s(random.between(1, 50), random.between(0, 5000), 100, 2 * random.between(1, 8), 2, 64);
    if (random.chance(40)) s.call.cu_seqlens_q = &cumulative;
    const Count bytes = workspace_bound(s.get(), scalar_images(), small_device());
    const BackwardPlan plan = plan_of(s.get(), scalar_images(), small_device());
    const Count heads = Count(s.call.heads_q) * (s.call.cu_seqlens_q ? 1 : s.call.batch);
    ASSERT_EQ(plan.params.stats_rows % kernels::stats_block, 0);
    ASSERT_TRUE(bytes == heads * plan.params.stats_rows * 8);
    ASSERT_TRUE(Count(plan.params.stats_rows) >= Count(s.call.rows_q));
    Shaped larger = s;
    larger.call.rows_q += random.between(0, 300), larger.call.batch += random.between(0, 3);
    larger.call.heads_q += 2 * random.between(0, 2);
    ASSERT_TRUE(workspace_bound(larger.get(), scalar_images(), small_device()) >= bytes);
  }
}

/// As much as the plan lays out, whichever way the call then goes: a term, a row of sums, a part of a counter and in
/// f16 a factor for each row, and nothing that grows faster than rows do.
// [F189] [F190]
TEST(BackwardPlan, TheWorkspaceHoldsSumsCountersAndFactors) {
  const KernelSet of_bf16 = images_of(kernels::bf16), of_f16 = images_of(kernels::f16);
  if (of_bf16.count < 2) GTEST_SKIP() << "no kernels for SM 80 in this build";
  Device device = small_device();
  device.shared_per_block = 163 << 10;
  reference::Random random(1);
  static const int32_t cumulative = 0;
  int fixed_order = 0, in_any_order = 0, apart = 0;
  for (int i = 0; i < 2000; ++i) {
    const int64_t heads_kv = random.between(1, 4), group = random.between(1, 8);
    const bool half = random.chance(50);
    const KernelSet &gradients = half ? of_f16 : of_bf16;
    Shaped16 s(random.between(1, 50), random.between(0, 5000), random.between(0, 5000), heads_kv * group, heads_kv, 64,
               half ? FA_F16 : FA_BF16);
    if (random.chance(40)) s.call.cu_seqlens_q = s.call.cu_seqlens_k = &cumulative;
    s.attention.nondeterministic = random.chance(30);
    const auto bytes_of = [&](Shaped16 &of) { return workspace_bound(of.get(), gradients, device); };
    const Count bytes = bytes_of(s);
    BackwardPlan plan = plan_of(s.get(), gradients, device);
    const int64_t rows = s.call.heads_q * (s.call.cu_seqlens_q ? 1 : s.call.batch) * plan.params.stats_rows;
    const int64_t row = sizeof(kernels::RowStats) + 64 * sizeof(float);
    const int64_t factors = half ? rows / kernels::stats_block * static_cast<int64_t>(sizeof(kernels::RowScales)) : 0;
    const bool has_queries = s.call.rows_q > 0;
    const int64_t counters =
        s.attention.nondeterministic || !has_queries ? 0 : rows / kernels::dq_semaphore_rows * 4 + of_tickets;
    ASSERT_TRUE(bytes == Count(rows * row + counters + factors));
    // The end of the plan's part of it.
    plan.workspace.bind(reinterpret_cast<char *>(uintptr_t{256}), &plan.params);
    auto end =
        reinterpret_cast<uintptr_t>(plan.params.row_stats) + static_cast<uintptr_t>(rows) * sizeof(kernels::RowStats);
    if (plan.params.dq_columns != 0) {
      ASSERT_EQ(reinterpret_cast<uintptr_t>(plan.params.dq_accum), end);
      end += static_cast<uintptr_t>(rows) * 64 * sizeof(float);
      ASSERT_EQ(plan.params.dq_semaphore != nullptr, !s.attention.nondeterministic && has_queries);
    }
    if (plan.params.dq_semaphore != nullptr) {
      ASSERT_EQ(reinterpret_cast<uintptr_t>(plan.params.dq_semaphore), end);
      end += static_cast<uintptr_t>(rows) / kernels::dq_semaphore_rows * sizeof(int32_t) + of_tickets;
    }
    ASSERT_EQ(plan.params.row_factors != nullptr, half && plan.params.dq_columns != 0);
    if (plan.params.row_factors != nullptr) {
      ASSERT_EQ(reinterpret_cast<uintptr_t>(plan.params.row_factors), end);
      end += static_cast<uintptr_t>(factors);
    }
    ASSERT_TRUE(Count(end - 256) == plan.workspace.bytes());
    ASSERT_TRUE(plan.workspace.bytes() <= bytes);
    ASSERT_TRUE(plan.params.dq_columns == 0 || plan.workspace.bytes() == bytes);
    ++(plan.params.dq_columns == 0 ? apart : plan.fixed_order ? fixed_order : in_any_order);
    // Never less for more of anything, in either order.
    Shaped16 larger = s;
    larger.call.rows_q += random.between(0, 300), larger.call.rows_k += random.between(0, 300);
    larger.call.batch += random.between(0, 3), larger.call.heads_q += heads_kv * random.between(0, 2);
    ASSERT_TRUE(bytes_of(larger) >= bytes);
    // Twice as much for twice the batch, or for twice the heads of packed sequences.
    Shaped16 twice = s;
    (s.call.cu_seqlens_q ? twice.call.heads_q : twice.call.batch) *= 2;
    const int64_t once = counters == 0 ? 0 : of_tickets;
    ASSERT_TRUE(bytes_of(twice) + once == bytes + bytes);
  }
  EXPECT_GT(fixed_order, 100);
  EXPECT_GT(in_any_order, 100);
  EXPECT_GT(apart, 100);
}

/// A family that copies in boxes gets tensor maps with its launch; where the driver makes none, or strides have none,
/// the next family computes the gradient. The driver is the machine's: one that does nothing makes every map
/// (cuda_plan.maps), and none is made where there is no driver.
TEST(BackwardPlan, HasTensorMapsOfTilesWithBoxes) {
  constexpr kernels::Family boxed = {[](const kernels::Arch &, int, Entry entry) {
                                       TileConfig tile = {};
                                       if (entry != Entry::dkv) return tile;
                                       tile.rows = tile.keys = tile.box_queries = tile.box_keys = 64;
                                       tile.box_out = 64, tile.threads = 128;
                                       return tile;
                                     },
                                     [](const kernels::Attention &) { return kernels::bf16; },
                                     [](const kernels::Attention &) -> const char * { return nullptr; },
                                     [](Entry, const kernels::Params &) -> const char * { return nullptr; },
                                     false,
                                     [](Entry, const kernels::BackwardParams &) -> const char * { return nullptr; }};
  const Image image = {"boxed", kernels::archs, "boxed", &boxed, kernels::bf16, 64, nullptr};
  const KernelSet kernels = images_with(image);
  Shaped16 s(2, 100, 200, 4, 4);
  s.attention.softcap = 1;  // not in one loop
  const auto dkv = [&] { return plan_of(s.get(), kernels, small_device()).loop[1].kernels[0]; };
  EXPECT_EQ(dkv().entry, Entry::dkv);
  if (machine().driver.cuTensorMapEncodeTiled != nullptr) {
    EXPECT_EQ(dkv().image, &image);
    EXPECT_TRUE(dkv().maps.has_value());
  } else {
    EXPECT_EQ(dkv().image, kernels.images[1]);
    EXPECT_STREQ(dkv().why_no_better, "q, k or v of which the driver makes no tensor map");
    EXPECT_FALSE(dkv().maps.has_value());
  }
  if (machine().driver.cuTensorMapEncodeTiled != nullptr) {
    s.call.dout.stride[1] = 0;
    EXPECT_EQ(dkv().image, kernels.images[1]);
    EXPECT_STREQ(dkv().why_no_better, "dout that is not copied in boxes");
  }
  s.call.k.stride[1] = 0;
  EXPECT_EQ(dkv().image, kernels.images[1]);
  EXPECT_STREQ(dkv().why_no_better, "q, k or v with a stride that is 0 or negative");
  EXPECT_FALSE(dkv().maps.has_value());
}

}  // namespace
}  // namespace fa::cuda
