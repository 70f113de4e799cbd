// The entry point that a forward call takes, from inside.
#include <gtest/gtest.h>

#include <string>

#include "core/status.h"
#include "forward/mma/tiles.h"
#include "forward_calls.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

TEST(ForwardPlan, PlainCallsTakeThePlainEntry) {
  const KernelSet image = image_of("mma", 64);
  const Device device = device_of(108);
  const auto entry_after = [&](auto change) {
    Shaped s(2, 4096, 4096, 16, 16, 64);
    change(s);
    return plan_of(s.get(), image, device).kernel().entry;
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

TEST(ForwardPlan, PagesCapsAndSlopesTakeTheFeaturedEntry) {
  const Device device = device_of(108);
  const auto entry_after = [&](int dim, auto change) {
    Shaped s(2, 4096, 4096, 16, 16, dim);
    change(s);
    return plan_of(s.get(), image_of("mma", dim), device).kernel().entry;
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

/// Builds with FA_IMAGE_FILTER may lack the kernels that every call can take.
TEST(ForwardPlan, NamesTheImageThatABuildLacks) {
  const auto error_of = [](Shaped &s, const KernelSet &kernels) {
    const ForwardPlan plan = plan_of(s.get(), kernels, device_of(108));
    log_line(plan);
    return std::string(plan.status == FA_OK ? "" : last_error());
  };
  Shaped s(1, 1, 4096, 8, 8, 64);
  s.problem.num_splits = 4;
  KernelSet kernels = image_of("mma", 64);
  EXPECT_EQ(error_of(s, kernels), "");
  kernels.shared = nullptr;
  EXPECT_NE(error_of(s, kernels).find("combines the results of splits, of which this call has 4"), std::string::npos);
  s.problem.num_splits = 1;
  EXPECT_EQ(error_of(s, kernels), "");

  kernels = image_of("wgmma", 64);
  if (kernels.images[0] == nullptr) return;
  s.problem.bias = s.problem.q;
  EXPECT_NE(error_of(s, kernels).find("FA_IMAGE_FILTER is empty or matches images of mma and simt"), std::string::npos);
  kernels.alone = true;
  EXPECT_NE(error_of(s, kernels).find("FA_FORCE_KERNEL is \"cuda.sm_90a.wgmma\""), std::string::npos);
}

/// The sums of steps are those of strides for every row; calls of which 32 bits do not hold them stay general.
TEST(ForwardPlan, RowsOfKeysAreCountedIn32Bits) {
  const auto plan_with = [](int64_t entries, int64_t page_size, int64_t entry, int64_t k_row, int64_t v_row) {
    Shaped s(1, 4096, 4096, 16, 16, 64);
    ForwardCall &p = s.problem;
    p.batch_k = entries, p.page_size = page_size, p.rows_k = 4096, s.attention.softcap = 50;
    p.k.stride[0] = entry, p.v.stride[0] = -entry, p.k.stride[1] = k_row, p.v.stride[1] = v_row;
    return plan_of(s.get(), image_of("mma", 64), device_of(108));
  };
  const auto expect = [&](Entry expected, int64_t entries, int64_t page_size, int64_t entry, int64_t k_row,
                          int64_t v_row) {
    const ForwardPlan plan = plan_with(entries, page_size, entry, k_row, v_row);
    EXPECT_EQ(plan.kernel().entry, expected) << entries << " entries " << entry << " bytes apart, rows " << k_row;
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
  EXPECT_EQ(plan_of(s.get(), image_of("mma", 64), device_of(108)).kernel().entry, Entry::general);
}

TEST(ForwardPlan, FewRowsHaveATileOfTheirOwn) {
  const auto entry_of = [](const char *family, int64_t batch, int64_t queries, int64_t heads_kv, bool invariant) {
    Shaped s(batch, queries, 4096, 8, heads_kv, 64);
    s.attention.batch_invariant = invariant;
    return plan_of(s.get(), image_of(family, 64), device_of(108)).kernel().entry;
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

/// Where work tiles differ in length, and the longest is long, or the call is. The family takes tensor maps, which the
/// driver makes.
TEST(ForwardPlan, TicketsComeWithTensorMaps) {
  const KernelSet kernels = image_of("wgmma", 64);
  if (kernels.images[0] == nullptr) GTEST_SKIP() << "this build has no wgmma";
  const Device device = fast_device();
  const auto takes = [&](Shaped s) {
    s.problem.batch_k = s.problem.batch;
    const ForwardPlan plan = plan_of(s.get(), kernels, device);
    EXPECT_LE(number(plan.workspace.bytes()), bound_of(s.get(), kernels, device));
    EXPECT_EQ(number(plan.workspace.bytes()) > 0, plan.tickets.has_value() || plan.splits() > 1);
    return plan.tickets.has_value();
  };
  const auto causal = [](int64_t batch, int64_t rows, int64_t rows_k) {
    Shaped s(batch, rows, rows_k, 16, 16, 64);
    s.attention.mask = FA_MASK_CAUSAL;
    return s;
  };
  const bool maps = machine().driver.cuTensorMapEncodeTiled != nullptr;  // cuda_plan.maps
  EXPECT_EQ(takes(causal(8, 2048, 2048)), maps);
  EXPECT_FALSE(takes(Shaped(8, 2048, 2048, 16, 16, 64)));
  EXPECT_EQ(takes(Shaped(11, 1536, 4096, 16, 16, 64)), maps);  // even, of 2^30 multiply-adds a multiprocessor
  EXPECT_FALSE(takes(Shaped(11, 1536, 4095, 16, 16, 64)));
  Shaped remainder(1, 512, 65536, 71, 71, 64);  // two waves that are not split, and 20 tiles that are
  remainder.problem.batch_k = 1;
  EXPECT_FALSE(takes(remainder));
  EXPECT_EQ(plan_of(remainder.get(), kernels, device).loop_count, maps ? 2 : 0);
  EXPECT_FALSE(takes(causal(8, 1024, 1024)));  // short work tiles
  EXPECT_FALSE(takes(causal(8, 128, 8192)));   // a work tile a block, at most
  Shaped many = causal(1 << 12, 2048, 2048);   // 42 launches of up to 132 * 191
  EXPECT_EQ(takes(many), maps);
  many.problem.batch_k = many.problem.batch;
  const ForwardPlan launches = plan_of(many.get(), kernels, device);
  EXPECT_EQ(launches.loop[0].tiles_per_launch, maps ? 24967 : 0);
  EXPECT_EQ(launches.loop[0].tiles, maps ? 1 << 20 : 0);
  Shaped lengths(8, 2048, 2048, 16, 16, 64);
  static const int32_t used = 0;
  lengths.problem.seqused_k = &used;
  EXPECT_EQ(takes(lengths), maps);
  Shaped splits = causal(8, 2048, 2048);
  splits.problem.num_splits = 2;
  EXPECT_FALSE(takes(splits));
}

}  // namespace
}  // namespace fa::cuda
