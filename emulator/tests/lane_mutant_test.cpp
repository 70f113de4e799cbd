// Lanes that store different values to a word or exchange with missing members, and registers that a wgmma is still to
// read or write. Small kernels, a fault or its correct twin each, run with FA_EMU_CHECK=2.
#include <cstdlib>

#include "word_kernel.h"

namespace {

using namespace words;

TEST(StoreOfLanes, CleanTwin) {
  EXPECT_EQ(report_of("st.global.u32 [%rd1], 7; xor.b32 %r3, %r1, 5; shl.b32 %r3, %r3, 2; mov.u32 %r4, tile;"
                      "add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], %r1;"),
            "");
}
TEST(StoreOfLanes, DifferentValuesToAWord) {
  expect_report(report_of("st.global.u32 [%rd1], %r1;"), "lane-race): lanes 0 and 1 store different values");
}
TEST(StoreOfLanes, DifferentValuesToAWordOfSharedMemory) {
  expect_report(report_of("and.b32 %r3, %r1, 7; shl.b32 %r3, %r3, 2; mov.u32 %r4, tile; add.u32 %r3, %r3, %r4;"
                          "setp.lt.u32 %p1, %r1, 9; @%p1 st.shared.u32 [%r3], %r1;"),
                "lane-race): lanes 0 and 8 store different values");
}

std::string exchange(const std::string &mask) {
  return report_of("shfl.sync.bfly.b32 %r3, %r1, 1, 0x1f, " + mask + "; st.global.u32 [%rd3], %r3;");
}

TEST(MemberMask, CleanTwin) {
  EXPECT_EQ(exchange("-1"), "");
}
TEST(MemberMask, ItLacksLanesThatExecuteIt) {
  expect_report(exchange("0x0000ffff"), "member-mask): lanes ffffffff execute it with the member mask 0000ffff");
}

/// Two products of ones, 64 x 8 x 16 each; the second one begins with zeros that `between` stores into its registers.
std::string products(const std::string &before_the_wait, const std::string &between, const std::string &result) {
  std::string body = R"(
  mov.u32 %r3, tile;
  mad.lo.u32 %r4, %r1, 32, %r3;
  mov.u32 %r5, 0x3c003c00;
  st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};
  st.shared.v4.u32 [%r4+16], {%r5, %r5, %r5, %r5};
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r6, %r3, 4;
  cvt.u64.u32 %rd5, %r6;
  or.b64 %rd6, %rd5, 0x1000080000;
  add.s64 %rd7, %rd6, 128;
  setp.eq.u32 %p1, %r3, %r3;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.f32 %f4, 0f00000000;
)";
  const std::string multiply =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd6, %rd7, %p1, 1, 1, 0, 0;\n"
      "wgmma.commit_group.sync.aligned;\n";
  body += "wgmma.fence.sync.aligned;\n" + multiply + before_the_wait + "\nwgmma.wait_group.sync.aligned 0;\n";
  if (!between.empty()) body += between + "\n" + multiply + "wgmma.wait_group.sync.aligned 0;\n";
  body += "cvt.rzi.u32.f32 %r7, " + result + ";\n st.global.u32 [%rd3], %r7;\n";
  return report_of(body, {1, 128}, std::vector<unsigned>(128, 16));
}

const std::string zeros =
    "mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.f32 %f4, 0f00000000;";

TEST(WgmmaFence, CleanTwin) {
  EXPECT_EQ(products("", zeros + " wgmma.fence.sync.aligned;", "%f2"), "");
}
TEST(WgmmaFence, CleanTwinOfZerosBehindIt) {
  EXPECT_EQ(products("", "wgmma.fence.sync.aligned; " + zeros, "%f2"), "");
}
TEST(WgmmaFence, NoneBehindZeros) {
  expect_report(products("", zeros, "%f2"), "wgmma-fence): uses register %f1");
}

TEST(WgmmaCopy, CleanTwin) {
  EXPECT_EQ(products("", "", "%f2"), "");
}
/// ptxas makes the copy wait; the value is the product's.
TEST(WgmmaCopy, MadeBeforeTheWait) {
  setenv("FA_EMU_FAIL_ON", "error", 1);
  std::string report = products("mov.f32 %f5, %f2;", "", "%f5");
  setenv("FA_EMU_FAIL_ON", "formal", 1);
  expect_report(report, "formal (serialised): copies register %f2");
  EXPECT_EQ(report.find("error"), std::string::npos) << report;
  EXPECT_EQ(report.find("wrong results"), std::string::npos) << report;
}

}  // namespace
