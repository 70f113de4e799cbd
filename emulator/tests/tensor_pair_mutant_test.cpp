// Faults in products of two blocks, whose first factor is in tensor memory: a small kernel with a fault by number, run
// with FA_EMU_CHECK=2. 0 is the clean twin.
#include "mutant.h"

namespace {

using emulated::expect_report;

/// Two blocks of four warps allocate 64 columns each. Every warp puts ones, as pairs of f16, into 8 columns of its
/// lanes: A, 256 x 16. Block 0 multiplies it by zeros, 32 columns of which each block has half in shared memory, into
/// 32 columns of either block. All wait, put other values over A, and load the result. Faults: 1 A is stored without a
/// wait, 2 only blocks' own warps wait for one another before the product, 3 the commit signals block 0 alone, 4 block
/// 1 does not wait for the product before it overwrites A, 5 block 1 does not allocate, 6 block 1 does not give back, 7
/// block 1 ends instead of waiting for the product, and nobody gives back, 8 no fence behind the wait for others'
/// stores.
const char *const text = R"(
.version 8.7
.target sm_100a
.address_size 64
.visible .entry pair(.param .u64 out, .param .u32 fault) .reqnctapercluster 2 {
  .reg .pred %p<12>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .b16 %h<2>;
  .shared .align 128 .b8 tile[1024];
  .shared .align 8 .b64 bar;
  .shared .b32 where;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r16, %cluster_ctarank;
  setp.eq.u32 %p6, %r16, 1;
  shr.u32 %r3, %r2, 5;
  mov.u32 %r4, tile;
  mov.u32 %r5, bar;
  mov.u32 %r6, where;
  mad.lo.u32 %r7, %r2, 8, %r4;
  mov.u32 %r8, 0;
  st.shared.v2.u32 [%r7], {%r8, %r8};
  setp.eq.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r3, 0;
  @%p1 mbarrier.init.shared.b64 [%r5], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
  @!%p2 bra allocated;
  setp.eq.and.u32 %p3, %r1, 5, %p6;
  @%p3 bra allocated;
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r6], 64;
allocated:
  tcgen05.fence::before_thread_sync;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %r9, [where];
  shl.b32 %r10, %r3, 21;
  add.u32 %r10, %r10, %r9;
  mov.u32 %r11, 0x3c003c00;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r10+32], {%r11, %r11, %r11, %r11, %r11, %r11, %r11, %r11};
  setp.eq.u32 %p3, %r1, 1;
  @%p3 bra stored;
  tcgen05.wait::st.sync.aligned;
stored:
  tcgen05.fence::before_thread_sync;
  setp.eq.u32 %p3, %r1, 2;
  @%p3 bra alone;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  bra together;
alone:
  bar.sync 0;
together:
  setp.eq.u32 %p3, %r1, 8;
  @%p3 bra multiply;
  tcgen05.fence::after_thread_sync;
multiply:
  setp.eq.and.u32 %p3, %r1, 7, %p6;
  @%p3 bra done;
  @!%p1 bra multiplied;
  @%p6 bra multiplied;
  shr.u32 %r12, %r4, 4;
  cvt.u64.u32 %rd2, %r12;
  or.b64 %rd3, %rd2, 0x401000080000;
  setp.ne.u32 %p8, %r1, %r1;
  mov.u32 %r13, 0x10080010;
  add.u32 %r14, %r9, 32;
  tcgen05.mma.cta_group::2.kind::f16 [%r9], [%r14], %rd3, %r13, %p8;
  mov.u16 %h1, 3;
  setp.eq.u32 %p3, %r1, 3;
  setp.eq.or.u32 %p3, %r1, 7, %p3;
  @%p3 mov.u16 %h1, 1;
  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], %h1;
multiplied:
  setp.eq.and.u32 %p3, %r1, 4, %p6;
  @%p3 bra over;
again:
  mbarrier.try_wait.parity.shared.b64 %p10, [%r5], 0;
  @!%p10 bra again;
over:
  tcgen05.fence::after_thread_sync;
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r10+32], {%r2, %r2, %r2, %r2, %r2, %r2, %r2, %r2};
  tcgen05.wait::st.sync.aligned;
  @%p3 bra given;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r10];
  tcgen05.wait::ld.sync.aligned;
  mad.lo.u32 %r15, %r16, 128, %r2;
  mul.wide.u32 %rd4, %r15, 4;
  add.s64 %rd5, %rd1, %rd4;
  st.global.u32 [%rd5], %r11;
given:
  tcgen05.fence::before_thread_sync;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  tcgen05.fence::after_thread_sync;
  @!%p2 bra done;
  setp.eq.and.u32 %p3, %r1, 6, %p6;
  setp.eq.or.u32 %p3, %r1, 7, %p3;
  @%p3 bra done;
  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r9, 64;
done:
  ret;
}
)";

std::string pair(int fault) {
  return emulated::report_of(text, "pair", {2}, {128}, fault);
}

TEST(TensorPair, CleanTwin) {
  EXPECT_EQ(pair(0), "");
}
TEST(TensorPair, FactorStoredWithoutAWait) {
  expect_report(pair(1), "still writes");
}
TEST(TensorPair, TheOtherBlocksFactorMayStillBeStored) {
  expect_report(pair(2), "race: reads column|race: writes column|still writes|which was never written");
}
TEST(TensorPair, TheCommitSignalsOneBlock) {
  expect_report(pair(3), "deadlock");
}
TEST(TensorPair, TheOtherBlockDoesNotWait) {
  expect_report(pair(4), "race: reads column|race: writes column|still reads");
}
TEST(TensorPair, OneBlockDoesNotAllocate) {
  expect_report(pair(5), "deadlock");
}
TEST(TensorPair, OneBlockDoesNotGiveBack) {
  expect_report(pair(6), "deadlock");
}
TEST(TensorPair, OneBlockEndsBeforeTheProduct) {
  expect_report(pair(7),
                "and the other block of the pair, 1, has ended|nothing has waited for this asynchronous operation");
}
TEST(TensorPair, NoFenceBehindTheBarrier) {
  expect_report(pair(8), "without tcgen05.fence::before_thread_sync and");
}

}  // namespace
