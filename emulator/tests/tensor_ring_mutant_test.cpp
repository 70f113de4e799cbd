// A thread that multiplies the tiles that a warp copies into two stages, by tcgen05.mma: who gives stages back, and in
// which proxy they are filled. A small kernel with a fault by number, run with FA_EMU_CHECK=2.
#include "mutant.h"

namespace {

using emulated::Array;
using emulated::expect_report;

/// Warp 4 fills stages of 128 x 16 of A and 16 x 16 of B, by one bulk copy each, or row by row by cp.async; thread 0
/// adds up their products, and gives each stage back by a commit; threads 0 to 127 load the sums. Faults: 1 it gives a
/// stage back by an arrival, right behind its product, 2 by a commit in front of the product, 3 by an arrival behind a
/// commit that nobody waits for. By cp.async: 4 none, 5 no proxy fence, 6 the proxy fence comes before the wait for the
/// copies, 7 none, where copies signal the mbarrier themselves and the thread that multiplies executes the fence, 8
/// that one does not.
const char *const text = R"(
.version 8.7
.target sm_100a
.address_size 64
.visible .entry ring(.param .u64 from, .param .u64 to, .param .u32 fault) {
  .reg .pred %p<16>; .reg .b32 %r<24>; .reg .b64 %rd<9>;
  .shared .align 128 .b8 tile[9216];
  .shared .align 8 .b64 bars[6];
  .shared .b32 where;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  mov.u32 %r4, bars;
  mov.u32 %r16, where;
  shr.u32 %r5, %r2, 5;
  and.b32 %r17, %r2, 31;
  mov.u32 %r6, 0;
  setp.ne.u32 %p1, %r2, 0;
  setp.ge.u32 %p2, %r1, 4;
  setp.ge.u32 %p3, %r1, 7;
  @%p1 bra begun;
  selp.u32 %r7, 32, 1, %p3;
  mbarrier.init.shared.b64 [%r4], %r7;
  mbarrier.init.shared.b64 [%r4+8], %r7;
  mbarrier.init.shared.b64 [%r4+16], 1;
  mbarrier.init.shared.b64 [%r4+24], 1;
  mbarrier.init.shared.b64 [%r4+32], 1;
  mbarrier.init.shared.b64 [%r4+40], 6;
  fence.mbarrier_init.release.cluster;
begun:
  setp.ne.u32 %p4, %r5, 0;
  @%p4 bra allocated;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r16], 32;
allocated:
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %r18, [where];
  setp.lt.u32 %p4, %r2, 128;
  @%p4 bra multiply;
fill:
  and.b32 %r7, %r6, 1;
  shr.u32 %r8, %r6, 1;
  and.b32 %r8, %r8, 1;
  xor.b32 %r9, %r8, 1;
  mad.lo.u32 %r10, %r7, 8, %r4;
  mad.lo.u32 %r11, %r7, 4608, %r3;
wait_empty:
  mbarrier.try_wait.parity.shared.b64 %p5, [%r10+16], %r9;
  @!%p5 bra wait_empty;
  setp.ne.u32 %p6, %r17, 0;
  @%p2 bra by_rows;
  @%p6 bra filled;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 4608;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 4608, [%r10];
  bra filled;
by_rows:
  mad.lo.u32 %r12, %r17, 16, %r11;
  mul.wide.u32 %rd3, %r17, 16;
  add.s64 %rd3, %rd3, %rd1;
  mov.u32 %r13, 0;
row:
  cp.async.cg.shared.global [%r12], [%rd3], 16;
  add.u32 %r12, %r12, 512;
  add.s64 %rd3, %rd3, 512;
  add.u32 %r13, %r13, 1;
  setp.lt.u32 %p7, %r13, 9;
  @%p7 bra row;
  @%p3 cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];
  @%p3 bra filled;
  cp.async.commit_group;
  setp.eq.u32 %p8, %r1, 6;
  @%p8 fence.proxy.async.shared::cta;
  cp.async.wait_group 0;
  setp.eq.u32 %p8, %r1, 4;
  @%p8 fence.proxy.async.shared::cta;
  bar.warp.sync -1;
  @!%p6 mbarrier.arrive.shared.b64 _, [%r10];
filled:
  bar.warp.sync -1;
  add.s64 %rd1, %rd1, 4608;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p7, %r6, 6;
  @%p7 bra fill;
  bra done;
multiply:
  @%p1 bra multiplied;
step:
  and.b32 %r7, %r6, 1;
  shr.u32 %r8, %r6, 1;
  and.b32 %r8, %r8, 1;
  mad.lo.u32 %r10, %r7, 8, %r4;
  mad.lo.u32 %r11, %r7, 4608, %r3;
wait_full:
  mbarrier.try_wait.parity.shared.b64 %p5, [%r10], %r8;
  @!%p5 bra wait_full;
  setp.eq.u32 %p8, %r1, 7;
  @%p8 fence.proxy.async.shared::cta;
  shr.u32 %r12, %r11, 4;
  cvt.u64.u32 %rd4, %r12;
  or.b64 %rd4, %rd4, 0x401000080000;
  add.s64 %rd5, %rd4, 256;
  setp.ne.u32 %p9, %r6, 0;
  mov.u32 %r13, 0x08040010;
  setp.eq.u32 %p10, %r1, 2;
  @%p10 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r10+16];
  tcgen05.mma.cta_group::1.kind::f16 [%r18], %rd4, %rd5, %r13, %p9;
  @%p10 bra given;
  setp.eq.u32 %p11, %r1, 3;
  @%p11 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4+40];
  setp.eq.u32 %p12, %r1, 1;
  or.pred %p12, %p12, %p11;
  @%p12 mbarrier.arrive.shared.b64 _, [%r10+16];
  @!%p12 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r10+16];
given:
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p7, %r6, 6;
  @%p7 bra step;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4+32];
multiplied:
  mbarrier.try_wait.parity.shared.b64 %p5, [%r4+32], 0;
  @!%p5 bra multiplied;
  tcgen05.fence::after_thread_sync;
  shl.b32 %r19, %r5, 21;
  add.u32 %r19, %r19, %r18;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r19];
  tcgen05.wait::ld.sync.aligned;
  mul.wide.u32 %rd6, %r2, 4;
  add.s64 %rd6, %rd6, %rd2;
  st.global.u32 [%rd6], %r20;
  tcgen05.fence::before_thread_sync;
done:
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  setp.ne.u32 %p4, %r5, 0;
  @%p4 bra over;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r18, 32;
over:
  ret;
}
)";

/// All elements are 1: the sums are 6 steps' of 16.
std::string ring(int fault) {
  return emulated::reported([&] {
    emulated::start();
    Array<uint16_t> from(std::vector<uint16_t>(6 * 2304, 0x3c00));
    Array<float> to(std::vector<float>(128));
    emulated::launch(emulated::kernel(text, "ring"), {1}, {160}, 0, from.address, to.address, fault);
    if (fault != 0 && fault != 4 && fault != 7) return;
    for (float sum : to.values())
      if (sum != 96) return (void)std::fprintf(stderr, "a sum is %g, expected 96\n", static_cast<double>(sum));
  });
}

const char *const early = "still reads: nothing has waited for it|race): asynchronously writes|race): writes";
const char *const unfenced = "without a fence.proxy.async between";

TEST(TensorRing, CleanTwin) {
  EXPECT_EQ(ring(0), "");
}
TEST(TensorRing, AnArrivalInPlaceOfTheCommit) {
  expect_report(ring(1), early);
}
TEST(TensorRing, TheCommitComesBeforeTheProduct) {
  expect_report(ring(2), early);
}
TEST(TensorRing, AnArrivalBehindACommitThatNobodyWaitsFor) {
  expect_report(ring(3), early);
}
TEST(TensorRing, CleanTwinOfCopiesByRows) {
  EXPECT_EQ(ring(4), "");
}
TEST(TensorRing, NoProxyFenceBehindCopies) {
  expect_report(ring(5), unfenced);
}
TEST(TensorRing, TheProxyFenceComesBeforeTheWait) {
  expect_report(ring(6), unfenced);
}
TEST(TensorRing, CleanTwinOfCopiesThatSignal) {
  EXPECT_EQ(ring(7), "");
}
TEST(TensorRing, NoProxyFenceBehindCopiesThatSignal) {
  expect_report(ring(8), unfenced);
}

}  // namespace
