// setmaxnreg: a producer warpgroup and consumers that take the registers that it gives up. Faults by number, run with
// FA_EMU_CHECK=2.
#include "mutant.h"

namespace {

using emulated::expect_report;

/// Faults: 1 the producer gives nothing, 2 one warp of it does not, 3 .inc to fewer than before, 4 it gives nothing and
/// ends at once; 5, no fault: it gives and ends.
std::string program(const std::string &limits, const std::string &taken) {
  return R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry registers(.param .u64 words, .param .u32 fault) )" +
         limits + R"( {
  .reg .pred %p<8>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  shr.u32 %r3, %r2, 5;
  setp.ge.u32 %p1, %r3, 4;
  @%p1 bra consumer;
  setp.eq.u32 %p2, %r1, 4;
  @%p2 exit;
  setp.eq.u32 %p2, %r1, 1;
  @%p2 bra done;
  setp.eq.u32 %p3, %r1, 2;
  setp.eq.u32 %p4, %r3, 3;
  and.pred %p3, %p3, %p4;
  @%p3 bra done;
  setmaxnreg.dec.sync.aligned.u32 24;
  setp.eq.u32 %p2, %r1, 5;
  @%p2 exit;
  bra done;
consumer:
  setmaxnreg.inc.sync.aligned.u32 )" +
         taken + R"(;
  setp.eq.u32 %p5, %r1, 3;
  @!%p5 bra done;
  setmaxnreg.inc.sync.aligned.u32 208;
done:
  bar.sync 0;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
)";
}

/// A producer and two consumers begin with 168 registers a thread: 24 + 2 * 216 are less than 3 * 168.
std::string run(int fault) {
  return emulated::report_of(program(".maxntid 384 .minnctapersm 1", "216"), "registers", {1}, {384}, fault);
}

/// A producer and a consumer, which takes 232.
std::string run_pair(const std::string &limits, int fault) {
  return emulated::report_of(program(limits, "232"), "registers", {1}, {256}, fault);
}

TEST(RegisterPool, CleanTwin) {
  EXPECT_EQ(run(0), "");
}
TEST(RegisterPool, TheProducerGivesNothing) {
  expect_report(run(1), "deadlock");
}
TEST(RegisterPool, CleanTwinOfAProducerThatEnds) {
  EXPECT_EQ(run(5), "");
}
TEST(RegisterPool, TheProducerEndsAndGivesNothing) {
  expect_report(run(4), "deadlock");
}
TEST(RegisterPool, OneWarpDoesNotTakePart) {
  expect_report(run(2), "for all four warps of a warpgroup");
}
TEST(RegisterPool, IncreaseToFewer) {
  expect_report(run(3), "and the warp has 216");
}

// As two blocks go onto an SM, this one begins with 128 a thread, and 24 + 232 are all that it has.
const std::string half = ".maxntid 256, 1, 1 .minnctapersm 2";

TEST(RegisterPool, CleanTwinOfTwoBlocks) {
  EXPECT_EQ(run_pair(half, 0), "");
}
TEST(RegisterPool, TheProducerOfTwoBlocksGivesNothing) {
  expect_report(run_pair(half, 1), "deadlock");
}
TEST(RegisterPool, CleanTwinOfMaxnreg) {
  EXPECT_EQ(run_pair(".maxnreg 128", 0), "");
}
TEST(RegisterPool, TheProducerOfMaxnregGivesNothing) {
  expect_report(run_pair(".maxnreg 128", 1), "deadlock");
}
TEST(RegisterPool, MoreThanThereEverIs) {
  expect_report(run_pair(".maxnreg 120", 0), "deadlock");
}
TEST(RegisterPool, IncreaseFromMoreAtEntry) {
  expect_report(run_pair(".maxnreg 240", 0), "and the warp has 240");
}
TEST(RegisterPool, NothingToGiveWithoutLimitsWhichIsClean) {
  EXPECT_EQ(run_pair(".maxntid 256", 1), "");
}

}  // namespace
