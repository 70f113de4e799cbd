// A warpgroup that multiplies the tiles that a producer copies into two stages, and one thread of it that gives each
// stage back, as CUTLASS' pipelines do: a wgmma is one operation of four warps. Faults by number, run with
// FA_EMU_CHECK=2.
#include <cmath>
#include <cstdio>

#include "mutant.h"

namespace {

using emulated::Array;
using emulated::expect_report;

/// Thread 128 fills stages of 64 x 16 of A and 8 x 16 of B; threads 0 to 127 add up their products; thread 32 gives a
/// stage back when its wait for the product of the step before returns. Faults: 1 before it waits, 2 its warp's wait
/// leaves a product more in flight, 3 it gives back the stage of this step, 4 warp 3 ends before the last step, 5 warp
/// 2 has another matrix for B.
const std::string text = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 from, .param .u64 to, .param .u32 fault) {
  .reg .pred %p<16>; .reg .b32 %r<24>; .reg .b64 %rd<9>; .reg .f32 %f<5>;
  .shared .align 128 .b8 tile[4608];
  .shared .align 8 .b64 bars[4];
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  mov.u32 %r4, bars;
  shr.u32 %r5, %r2, 5;
  mov.u32 %r6, 0;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra begun;
  mbarrier.init.shared.b64 [%r4], 1;
  mbarrier.init.shared.b64 [%r4+8], 1;
  mbarrier.init.shared.b64 [%r4+16], 1;
  mbarrier.init.shared.b64 [%r4+24], 1;
  fence.mbarrier_init.release.cluster;
begun:
  bar.sync 0;
  setp.lt.u32 %p2, %r2, 128;
  @%p2 bra multiply;
  setp.ne.u32 %p3, %r2, 128;
  @%p3 bra done;
fill:
  and.b32 %r7, %r6, 1;
  shr.u32 %r8, %r6, 1;
  and.b32 %r8, %r8, 1;
  xor.b32 %r9, %r8, 1;
  mad.lo.u32 %r10, %r7, 8, %r4;
  mad.lo.u32 %r11, %r7, 2304, %r3;
wait_empty:
  mbarrier.try_wait.parity.shared.b64 %p4, [%r10+16], %r9;
  @!%p4 bra wait_empty;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 2304;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 2304, [%r10];
  add.s64 %rd1, %rd1, 2304;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p5, %r6, 6;
  @%p5 bra fill;
  bra done;
multiply:
  mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.f32 %f4, 0f00000000;
  setp.eq.u32 %p6, %r2, 32;
  setp.eq.u32 %p7, %r1, 1;
  and.pred %p7, %p7, %p6;
  setp.eq.u32 %p8, %r1, 2;
  setp.eq.and.u32 %p8, %r5, 1, %p8;
  setp.eq.u32 %p9, %r1, 3;
  setp.eq.u32 %p10, %r1, 4;
  setp.eq.and.u32 %p10, %r5, 3, %p10;
  setp.eq.u32 %p11, %r1, 5;
  setp.eq.and.u32 %p11, %r5, 2, %p11;
  selp.u64 %rd7, 1, 0, %p11;
step:
  setp.eq.and.u32 %p12, %r6, 5, %p10;
  @%p12 bra done;
  and.b32 %r7, %r6, 1;
  shr.u32 %r8, %r6, 1;
  and.b32 %r8, %r8, 1;
  mad.lo.u32 %r10, %r7, 8, %r4;
  mad.lo.u32 %r11, %r7, 2304, %r3;
wait_full:
  mbarrier.try_wait.parity.shared.b64 %p4, [%r10], %r8;
  @!%p4 bra wait_full;
  shr.u32 %r12, %r11, 4;
  cvt.u64.u32 %rd3, %r12;
  or.b64 %rd4, %rd3, 0x1000080000;
  add.s64 %rd5, %rd4, 128;
  add.s64 %rd5, %rd5, %rd7;
  setp.ne.u32 %p13, %r6, 0;
  xor.b32 %r13, %r7, 1;
  selp.b32 %r13, %r7, %r13, %p9;
  mad.lo.u32 %r14, %r13, 8, %r4;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd4, %rd5, %p13, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  setp.eq.and.u32 %p14, %r6, 0, !%p9;
  @%p14 bra next;
  @%p7 mbarrier.arrive.shared.b64 _, [%r14+16];
  @%p8 bra less;
  wgmma.wait_group.sync.aligned 1;
  bra waited;
less:
  wgmma.wait_group.sync.aligned 2;
waited:
  @%p7 bra next;
  @%p6 mbarrier.arrive.shared.b64 _, [%r14+16];
next:
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p5, %r6, 6;
  @%p5 bra step;
  wgmma.wait_group.sync.aligned 0;
  mul.wide.u32 %rd6, %r2, 16;
  add.s64 %rd6, %rd6, %rd2;
  st.global.v4.f32 [%rd6], {%f1, %f2, %f3, %f4};
done:
  ret;
}
)";

/// Blocks of one warpgroup: even ones multiply four times and change the sums in between, odd ones multiply once. Fault
/// 1: odd ones have no wgmma.fence.
const std::string unlike = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry blocks(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<5>;
  .shared .align 128 .b8 tile[4096];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  mov.u32 %r4, 0;
  mad.lo.u32 %r5, %r2, 16, %r3;
  st.shared.v4.u32 [%r5], {%r4, %r4, %r4, %r4};
  st.shared.v4.u32 [%r5+2048], {%r4, %r4, %r4, %r4};
  fence.proxy.async;
  bar.sync 0;
  mov.u32 %r6, %ctaid.x;
  and.b32 %r6, %r6, 1;
  setp.ne.u32 %p1, %r6, 0;
  setp.eq.and.u32 %p2, %r1, 1, %p1;
  shr.u32 %r7, %r3, 4;
  cvt.u64.u32 %rd1, %r7;
  or.b64 %rd2, %rd1, 0x1000080000;
  add.s64 %rd3, %rd2, 128;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.f32 %f4, 0f00000000;
multiply:
  @%p2 bra fenced;
  wgmma.fence.sync.aligned;
fenced:
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd2, %rd3, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  @%p1 bra done;
  add.f32 %f1, %f1, %f2; add.f32 %f2, %f2, %f3; add.f32 %f3, %f3, %f4; add.f32 %f4, %f4, %f1;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p3, %r4, 4;
  @%p3 bra multiply;
done:
  ret;
}
)";

constexpr int steps = 6, rows = 64, columns = 8, depth = 16, stage_halves = 2304 / 2;

/// A value that f16 holds, as its bits: 0 to 7.
int value_of(int i) {
  return i * 5 % 8;
}
uint16_t half_of(int value) {
  constexpr uint16_t bits[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};
  return bits[value];
}
int of_a(int step, int row, int k) {
  return value_of(step * 7 + row * 3 + k);
}
int of_b(int step, int column, int k) {
  return value_of(step * 3 + column + k * 2 + 1);
}

/// Core matrices of 8 x 8, those of a row of A or B one after the other.
int place(int row, int k) {
  return row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8;
}

std::string ring(int fault) {
  return emulated::reported([&] {
    emulated::start();
    std::vector<uint16_t> stages(steps * stage_halves);
    for (int step = 0; step < steps; step++)
      for (int k = 0; k < depth; k++) {
        uint16_t *stage = stages.data() + step * stage_halves;
        for (int row = 0; row < rows; row++) stage[place(row, k)] = half_of(of_a(step, row, k));
        for (int n = 0; n < columns; n++) stage[rows * depth + place(n, k)] = half_of(of_b(step, n, k));
      }
    Array<uint16_t> from(stages);
    Array<float> to(std::vector<float>(128 * 4));
    emulated::launch(emulated::kernel(text, "ring"), {1}, {160}, 0, from.address, to.address, fault);
    if (fault != 0) return;
    std::vector<float> got = to.values();
    for (int thread = 0; thread < 128; thread++)
      for (int i = 0; i < 4; i++) {
        int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2), column = thread % 4 * 2 + i % 2, sum = 0;
        for (int step = 0; step < steps; step++)
          for (int k = 0; k < depth; k++) sum += of_a(step, row, k) * of_b(step, column, k);
        float result = got[static_cast<size_t>(thread * 4 + i)];
        if (result == static_cast<float>(sum)) continue;
        std::fprintf(stderr, "row %d, column %d is %g, expected %d\n", row, column, static_cast<double>(result), sum);
        return;
      }
  });
}

TEST(Release, CleanTwin) {
  EXPECT_EQ(ring(0), "");
}
TEST(Release, BeforeTheWait) {
  expect_report(ring(1), "still reads: nothing has waited for it|race): asynchronously writes|race): writes");
}
TEST(Release, OneGroupTooMuchInFlight) {
  expect_report(ring(2), "still reads: nothing has waited for it|race): asynchronously writes|race): writes");
}
TEST(Release, OfTheStageInUse) {
  expect_report(ring(3), "still reads: nothing has waited for it|race): asynchronously writes|race): writes");
}
TEST(Release, AWarpThatDoesNotTakePart) {
  expect_report(ring(4), "which all four warps must execute");
}
TEST(Release, AMatrixOfItsOwn) {
  expect_report(ring(5), "the matrix descriptor of B differs between the warps");
}

TEST(Blocks, KnowNothingOfTheRegistersOfEarlierOnes) {
  EXPECT_EQ(emulated::report_of(unlike, "blocks", {16}, {128}, 0), "");
}
TEST(Blocks, WithoutAFence) {
  expect_report(emulated::report_of(unlike, "blocks", {16}, {128}, 1), "without a wgmma.fence before it");
}

}  // namespace
