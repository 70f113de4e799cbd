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
  EXPECT_EQ(report.find("launch before"), std::string::npos) << report;
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

}  // namespace
