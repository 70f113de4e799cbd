// Orders that nothing guarantees, which cards punish now and then: of memory, and of the starts of blocks. Small
// kernels, a fault or its correct twin each, run with FA_EMU_CHECK=2.
#include <cstdlib>

#include "word_kernel.h"

namespace {

using namespace words;

/// Block 0 hands a word a thread to block 1 by a flag.
std::string handed_over(const std::string &publish, const std::string &observe, const std::string &then = "") {
  return report_of(R"(
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra wait;
  st.global.u32 [%rd3], %r1;
  bar.sync 0;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra done;
  )" + publish + R"(
  bra done;
wait:
  )" + observe + R"(
  setp.eq.u32 %p3, %r4, 0;
  @%p3 bra wait;
  )" + then + R"(
  ld.global.u32 %r5, [%rd3];
  st.global.u32 [%rd3+512], %r5;
done:
)",
                   {2});
}

const std::string race = "race): reads global memory|race): writes global memory";
const std::string store = "st.relaxed.gpu.global.u32 [%rd2], 1;", load = "ld.relaxed.gpu.global.u32 %r4, [%rd2];";

TEST(MemoryOrder, CleanTwin) {
  EXPECT_EQ(handed_over(release, acquire), "");
}
TEST(MemoryOrder, CleanTwinOfFences) {
  EXPECT_EQ(handed_over("fence.acq_rel.gpu; " + store, load, "fence.acq_rel.gpu;"), "");
}
TEST(MemoryOrder, CleanTwinOfVolatile) {
  EXPECT_EQ(
      handed_over("membar.gl; st.volatile.global.u32 [%rd2], 1;", "ld.volatile.global.u32 %r4, [%rd2];", "membar.gl;"),
      "");
}
TEST(MemoryOrder, CleanTwinOfAtomics) {
  EXPECT_EQ(handed_over("fence.sc.sys; red.global.add.u32 [%rd2], 1;", "atom.global.or.b32 %r4, [%rd2], 0;",
                        "fence.acq_rel.gpu;"),
            "");
}
TEST(MemoryOrder, ARelaxedStorePublishes) {
  expect_report(handed_over(store, acquire), race);
}
TEST(MemoryOrder, AnAtomicPublishes) {
  expect_report(handed_over("red.global.add.u32 [%rd2], 1;", acquire), race);
}
TEST(MemoryOrder, AVolatileStorePublishes) {
  expect_report(handed_over("st.volatile.global.u32 [%rd2], 1;", acquire), race);
}
TEST(MemoryOrder, ARelaxedLoadObserves) {
  expect_report(handed_over(release, load), race);
}
TEST(MemoryOrder, AVolatileLoadObserves) {
  expect_report(handed_over(release, "ld.volatile.global.u32 %r4, [%rd2];"), race);
}
TEST(MemoryOrder, TheFenceComesBehindTheStore) {
  expect_report(handed_over(store + " fence.acq_rel.gpu;", acquire), race);
}
TEST(MemoryOrder, ReleasedToTheBlockAlone) {
  expect_report(handed_over("st.release.cta.global.u32 [%rd2], 1;", acquire), race);
}
TEST(MemoryOrder, AcquiredFromTheBlockAlone) {
  expect_report(handed_over(release, "ld.acquire.cta.global.u32 %r4, [%rd2];"), race);
}
TEST(MemoryOrder, FencedForTheBlockAlone) {
  expect_report(handed_over("fence.acq_rel.cta; " + store, acquire), race);
}

/// Each block stores a word and counts itself; the last one adds the words up.
std::string last_block(const std::string &before, const std::string &behind, const std::string &access = "global") {
  return report_of(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  mul.wide.u32 %rd4, %r2, 4;
  add.s64 %rd4, %rd4, %rd1;
  add.u32 %r3, %r2, 1;
  st.)" + access + R"(.u32 [%rd4], %r3;
  )" + before + R"(
  atom.global.add.u32 %r4, [%rd2], 1;
  setp.ne.u32 %p2, %r4, 3;
  @%p2 bra done;
  )" + behind + R"(
  mov.u32 %r5, 0;
  mov.u32 %r6, 0;
  mov.u64 %rd5, %rd1;
next:
  ld.)" + access + R"(.u32 %r7, [%rd5];
  add.u32 %r5, %r5, %r7;
  add.s64 %rd5, %rd5, 4;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p3, %r6, 4;
  @%p3 bra next;
  st.global.u32 [%rd1+512], %r5;
done:
)",
                   {4});
}

TEST(LastBlock, CleanTwin) {
  EXPECT_EQ(last_block("membar.gl;", "membar.gl;"), "");
}
TEST(LastBlock, CleanTwinOfVolatileWords) {
  EXPECT_EQ(last_block("membar.gl;", "", "volatile.global"), "");
}
/// As torch's reductions: all threads fence, one counts.
TEST(LastBlock, CleanTwinOfABarrier) {
  EXPECT_EQ(report_of(R"(
  mad.lo.u32 %r3, %r2, 64, %r1;
  mul.wide.u32 %rd4, %r3, 4;
  add.s64 %rd4, %rd4, %rd1;
  st.global.u32 [%rd4], %r3;
  membar.gl;
  bar.sync 0;
  setp.ne.u32 %p1, %r1, 0;
  mov.u32 %r4, tile;
  @%p1 bra counted;
  atom.global.add.u32 %r5, [%rd2], 1;
  st.shared.u32 [%r4], %r5;
counted:
  bar.sync 0;
  ld.shared.u32 %r6, [%r4];
  setp.ne.u32 %p2, %r6, 3;
  @%p2 bra done;
  membar.gl;
  ld.global.u32 %r7, [%rd3];
  st.global.u32 [%rd3], %r7;
done:
)",
                      {4, 64}),
            "");
}
TEST(LastBlock, NoFenceBeforeItCounts) {
  expect_report(last_block("", "membar.gl;"), race);
}
TEST(LastBlock, NoFenceBehindTheCount) {
  expect_report(last_block("membar.gl;", ""), race);
}

std::string through_nc(const std::string &load_of) {
  return report_of(
      "st.global.u32 [%rd3], %r1;\n bar.sync 0;\n mul.wide.u32 %rd4, %r1, 4;\n add.s64 %rd5, %rd4, %rd2;\n" + load_of +
          "\n st.global.u32 [%rd3+512], %r4;\n",
      {1, 64});
}

TEST(Constant, CleanTwin) {
  EXPECT_EQ(through_nc("ld.global.u32 %r4, [%rd3];"), "");
}
TEST(Constant, CleanTwinOfOtherWords) {
  EXPECT_EQ(through_nc("ld.global.nc.u32 %r4, [%rd5];"), "");
}
TEST(Constant, ReadsWhatTheKernelWrote) {
  expect_report(through_nc("ld.global.nc.u32 %r4, [%rd3];"), "constant-written): reads by ld.global.nc");
}

/// One block at a time; each waits for the one of the number before, or takes its number when it begins.
std::string turns(const char *starts, bool tickets) {
  return emulated::reported([&] {
    setenv("FA_EMU_STARTS", starts, 1);
    setenv("FA_EMU_DEVICE", "sm_90a:sms=1", 1);
    emulated::start();
    Array<unsigned> words(std::vector<unsigned>(256)), ready(std::vector<unsigned>(64));
    const std::string text = kernel_of(std::string(tickets ? "atom.global.add.u32 %r2, [%rd1], 1;\n" : "") + R"(
again:
  ld.acquire.gpu.global.u32 %r3, [%rd2];
  setp.ne.u32 %p1, %r3, %r2;
  @%p1 bra again;
  add.u32 %r3, %r3, 1;
  st.release.gpu.global.u32 [%rd2], %r3;
)");
    CUfunction function = emulated::kernel(text, "k");
    constexpr int max_dynamic_shared = 8;
    constexpr unsigned most = 200 << 10;
    emulated::call("cuFuncSetAttribute", function, max_dynamic_shared, static_cast<int>(most));
    launch(function, {6}, {1}, most, words.address, ready.address);
  });
}

TEST(StartOrder, CleanTwin) {
  EXPECT_EQ(turns("ascending", false), "");
}
TEST(StartOrder, CleanTwinOfTickets) {
  EXPECT_EQ(turns("reversed", true), "");
  EXPECT_EQ(turns("shuffled", true), "");
}
TEST(StartOrder, BlocksThatWaitForLowerNumbers) {
  expect_report(turns("reversed", false), "deadlock");
  expect_report(turns("shuffled", false), "deadlock");
}

}  // namespace
