// Values that nobody has written count when they reach memory, an address or a branch, and not when arithmetic meets
// them: compilers compute with lanes, rows and columns that are uninitialised and drop the result. Run with
// FA_EMU_CHECK=2.
#include "mutant.h"

namespace {

/// One warp. Every part computes with something that nobody has written and, without its fault, drops it. Faults: 1
/// selp chooses it, 2 a lane without it gets it by shfl, 3 a sum with an unwritten place of shared memory is stored, 4
/// a row of a product whose row of A is uninitialised, 5 a column of a product whose column of B is, 6 an address, 7 a
/// branch, 8 the guard of a store that does not happen, 9 a shuffle's result goes through a vote to a branch, 10
/// a value guarded by it, 11 half of a pair, 12 a lane that does not take part in a shuffle.
const std::string text = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry propagation(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<30>; .reg .b16 %rs<10>; .reg .b32 %r<60>; .reg .f32 %f<9>; .reg .b64 %rd<9>;
  .shared .align 16 .b8 tile[1024];
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r3, tile;

  // selp
  add.u32 %r10, %r50, 1;
  setp.eq.u32 %p1, %r1, 1;
  selp.b32 %r11, %r10, %r2, %p1;
  st.global.u32 [%rd3], %r11;

  // shfl: lanes from 16 on have a value, and their partners store nothing
  setp.ge.u32 %p2, %r2, 16;
  @%p2 mov.u32 %r12, %r2;
  shfl.sync.bfly.b32 %r13, %r12, 16, 31, -1;
  setp.eq.u32 %p3, %r1, 2;
  xor.pred %p4, %p2, %p3;
  @!%p4 st.global.u32 [%rd3+128], %r13;

  // shared memory
  shl.b32 %r14, %r2, 3;
  add.u32 %r15, %r3, %r14;
  st.shared.v2.b32 [%r15], {%r2, %r2};
  ld.shared.u32 %r16, [%r3+768];
  add.u32 %r17, %r16, %r2;
  setp.eq.u32 %p5, %r1, 3;
  selp.b32 %r18, %r17, 0, %p5;
  st.global.u32 [%rd3+256], %r18;

  // mma: rows 0 to 7 of A are written, columns 1 to 7 of B
  bar.warp.sync -1;
  and.b32 %r19, %r2, 15;
  shl.b32 %r19, %r19, 5;
  shr.u32 %r20, %r2, 4;
  shl.b32 %r20, %r20, 4;
  add.u32 %r21, %r19, %r20;
  add.u32 %r21, %r21, %r3;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r22, %r23, %r24, %r25}, [%r21];
  setp.ge.u32 %p6, %r2, 4;
  @%p6 mov.u32 %r26, 0;
  @%p6 mov.u32 %r27, 0;
  mov.f32 %f1, 0f00000000;
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r22, %r23, %r24, %r25}, {%r26, %r27},
    {%f1, %f1, %f1, %f1};
  setp.eq.u32 %p7, %r1, 4;
  selp.f32 %f6, %f5, %f3, %p7;
  setp.eq.u32 %p8, %r1, 5;
  selp.f32 %f6, %f2, %f6, %p8;
  st.global.f32 [%rd3+384], %f6;

  // an address
  and.b32 %r28, %r51, 0;
  setp.eq.u32 %p9, %r1, 6;
  selp.b32 %r28, %r28, 0, %p9;
  mul.wide.u32 %rd4, %r28, 4;
  add.s64 %rd4, %rd4, %rd3;
  st.global.u32 [%rd4+512], %r2;

  // a branch: no lane takes it
  setp.eq.u32 %p10, %r52, 77;
  setp.eq.u32 %p11, %r1, 7;
  and.pred %p12, %p10, %p11;
  @%p12 bra done;

  // a guard that is false
  setp.eq.u32 %p13, %r1, 8;
  and.pred %p14, %p10, %p13;
  @%p14 st.global.u32 [%rd3], %r2;

  // a vote
  setp.eq.u32 %p15, %r1, 9;
  setp.gt.u32 %p16, %r13, 99;
  and.pred %p17, %p16, %p15;
  vote.sync.any.pred %p18, %p17, -1;
  @%p18 bra done;

  // a guarded value
  mov.u32 %r30, %r2;
  setp.eq.u32 %p19, %r1, 10;
  and.pred %p20, %p10, %p19;
  @%p20 mov.u32 %r30, 1;
  st.global.u32 [%rd3+640], %r30;

  // a pair of which one half is written
  cvt.u16.u32 %rs1, %r2;
  mov.b32 %r31, {%rs1, %rs9};
  mov.b32 %r32, %r31;
  mov.b32 {%rs2, %rs3}, %r32;
  setp.eq.u32 %p21, %r1, 11;
  selp.b16 %rs4, %rs3, %rs2, %p21;
  st.global.u16 [%rd3+768], %rs4;

  // half of a warp: lanes from 8 on get nothing
  setp.ge.u32 %p22, %r2, 16;
  @%p22 bra done;
  shfl.sync.down.b32 %r33, %r2, 8, 31, 0xffff;
  setp.lt.u32 %p23, %r2, 8;
  setp.eq.u32 %p24, %r1, 12;
  or.pred %p25, %p23, %p24;
  @%p25 st.global.u32 [%rd3+896], %r33;
done:
  ret;
}
)";

std::string run(int fault) {
  return emulated::reported([&] {
    setenv("FA_EMU_FAIL_ON", "error", 1);
    emulated::start();
    emulated::Array<int> words(std::vector<int>(512));
    emulated::launch(emulated::kernel(text, "propagation"), {1}, {32}, 0, words.address, fault);
  });
}

TEST(Propagation, CleanTwin) {
  // An unused value is a formal finding, which fails nothing.
  std::string report = run(0);
  EXPECT_EQ(report.find("error"), std::string::npos) << report;
  EXPECT_NE(report.find("fa-emu: formal (unused-memory)"), std::string::npos) << report;
}

/// value: its report; use: the use that counts.
void expect(int fault, const std::string &value, const std::string &use) {
  std::string report = run(fault);
  EXPECT_NE(report.find(value), std::string::npos) << report;
  EXPECT_NE(report.find(use + " uses its result"), std::string::npos) << report;
  EXPECT_NE(report.find("kernel: error 719: "), std::string::npos) << report;
}

TEST(Propagation, ChosenBySelp) {
  expect(1, "register %r50 is read and was never written", "(st.global.u32)");
}
TEST(Propagation, HandedOnByShfl) {
  expect(2, "register %r12 is read and was never written", "(st.global.u32)");
}
TEST(Propagation, ASumWithSharedMemory) {
  expect(3, "reads shared memory at offset 768, which was never written", "(st.global.u32)");
}
TEST(Propagation, ARowOfAProduct) {
  expect(4, "reads shared memory at offset 256, which was never written", "(st.global.f32)");
}
TEST(Propagation, AColumnOfAProduct) {
  expect(5, "register %r26 is read and was never written", "(st.global.f32)");
}
TEST(Propagation, AnAddress) {
  expect(6, "register %r51 is read and was never written", "(st.global.u32)");
}
TEST(Propagation, ABranchThatNoLaneTakes) {
  expect(7, "register %r52 is read and was never written", "(bra)");
}
TEST(Propagation, AGuardOfAStoreThatDoesNotHappen) {
  expect(8, "register %r52 is read and was never written", "(st.global.u32)");
}
TEST(Propagation, AVote) {
  expect(9, "register %r12 is read and was never written", "(bra)");
}
TEST(Propagation, AGuardedValue) {
  expect(10, "register %r52 is read and was never written", "(st.global.u32)");
}

TEST(Propagation, HalfOfAPair) {
  expect(11, "register %rs9 is read and was never written", "(st.global.u16)");
}
TEST(Propagation, FromALaneThatDoesNotTakePart) {
  expect(12, "shfl takes register %r2 from a lane that does not take part", "(st.global.u32)");
}

}  // namespace
