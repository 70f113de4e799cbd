// Findings that are many: at one place, in many blocks, at many places, and of blocks that run side by side.
#include <gtest/gtest.h>

#include "ending.h"

namespace {

using emulated::count;
using emulated::run;

/// A word that warp 0 stores and warp 3 reads.
std::string kernel(const std::string &reads) {
  return R"(
.version 8.0
.target sm_80
.address_size 64
.file 1 "kernels/tile.cuh"
.visible .entry _Z8unrolledPji(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<2>; .reg .b32 %r<6>;
  .shared .align 4 .b8 tile[4];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  setp.ne.u32 %p1, %r2, 0;
  .loc 1 7 0
  @!%p1 st.shared.u32 [%r3], %r2;
)" + reads +
         "ret;\n}\n";
}

/// A line of the source that reads the word.
std::string read_at(int line) {
  return ".loc 1 " + std::to_string(line) + " 0\nsetp.ne.u32 %p1, %r2, 96;\n@!%p1 ld.shared.u32 %r4, [%r3];\n";
}

std::string races_of(const std::string &report) {
  std::string text;
  for (size_t at = 0, end; at < report.size(); at = end + 1) {
    end = std::min(report.find('\n', at), report.size());
    if (report.compare(at, 21, "fa-emu: error (race):") == 0) text += report.substr(at, end - at) + "\n";
  }
  return text;
}

TEST(FindingsExtent, OnePlaceBetweenTwoFencesIsTwoFindingsOfOneLaunch) {
  std::string report = run(kernel(read_at(12) + "membar.cta;\n" + read_at(12)), 0).report;
  EXPECT_EQ(count(races_of(report), "kernels/tile.cuh:12"), 2u) << report;
  EXPECT_EQ(report.find("an earlier launch"), std::string::npos) << report;
  EXPECT_NE(report.find("in 1 launch: unrolled(unsigned int*, int), kernels/tile.cuh:12"), std::string::npos) << report;
}

TEST(FindingsExtent, BlocksAreCountedUpToALimit) {
  std::string report = run(kernel(read_at(12)), 0, {}, 1, 4100).report;
  EXPECT_NE(report.find(" of 4096 blocks or more: (0,0,0), (1,0,0), (2,0,0), ..."), std::string::npos) << report;
}

TEST(FindingsExtent, WhatIsLeftOutIsCounted) {
  std::string reads;
  for (int line = 1; line <= 1003; line++) reads += read_at(100 + line);
  std::string report = run(kernel(reads), 0).report;
  const std::string more = "fa-emu:   ... and ";
  EXPECT_NE(report.find(more), std::string::npos) << report.substr(0, 1000);
  EXPECT_NE(report.find(more + "950 more\n"), std::string::npos) << report.substr(report.size() - 1000);
  EXPECT_EQ(count(report, " more, which are neither reported nor counted\n"), 1u);
}

TEST(FindingsExtent, NothingIsFoundWithoutChecks) {
  const std::string text = R"(
.version 8.6
.target sm_100a
.address_size 64
.visible .entry _Z8unrolledPji(.param .u64 words, .param .u32 fault) {
  .reg .pred %p1; .reg .b32 %r<3>;
  .shared .align 4 .b8 place[4];
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra done;
  mov.u32 %r2, place;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;
done:
  ret;
}
)";
  EXPECT_EQ(run(text, 0, {{"FA_EMU_DEVICE", "sm_100a"}, {"FA_EMU_CHECK", "0"}}).report, "");
  EXPECT_NE(run(text, 0, {{"FA_EMU_DEVICE", "sm_100a"}}).report.find("fa-emu: error (tensor-not-freed): "),
            std::string::npos);
}

/// Blocks add to a word by bulk reductions and choose by it which line of theirs has the race: their report depends
/// on who was first.
TEST(FindingsExtent, TheSameInEveryRunWithBulkReductions) {
  const std::string text = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry _Z8unrolledPji(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
  .shared .align 16 .b8 tile[32];
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %tid.x;
  mov.u32 %r3, tile;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra met;
  mov.u32 %r4, 1;
  st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4};
  fence.proxy.async.shared::cta;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r3], 16;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
met:
  bar.sync 0;
  ld.global.u32 %r5, [%rd1];
  and.b32 %r5, %r5, 3;
  setp.ge.u32 %p2, %r5, 2;
  @!%p1 st.shared.u32 [%r3+16], %r1;
  setp.ne.u32 %p3, %r1, 96;
  @%p3 bra done;
  @%p2 bra second;
  ld.shared.u32 %r6, [%r3+16];
  bra done;
second:
  st.shared.u32 [%r3+16], 77;
done:
  ret;
}
)";
  // Without addresses, which differ between processes.
  auto report = [&] {
    std::string all = run(text, 0, {{"FA_EMU_DEVICE", "sm_90a"}}, 1, 400).report;
    for (size_t at; (at = all.find(" at 0x")) != std::string::npos;) all.erase(at, all.find(',', at) - at);
    return all;
  };
  const std::string first = report();
  EXPECT_EQ(count(first, "fa-emu: error (race)"), 2u) << first;
  for (int i = 0; i < 5; i++) EXPECT_EQ(report(), first);
}

}  // namespace
