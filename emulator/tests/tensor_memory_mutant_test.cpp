// Faults in the use of tensor memory: a small kernel with a fault by number, run with FA_EMU_CHECK=2. 0 is the clean
// twin.
#include "mutant.h"

namespace {

using emulated::expect_report;

/// Four warps put their numbers into 32 columns of their lanes and load them again; with `product` one thread
/// multiplies zeros into them in between. Faults: 1 a store that nothing waits for, 2 columns loaded that nobody has
/// written, 3 a product that nobody commits, 4 columns given back that others may still load, 5 columns used after they
/// were given back, 6 a product on columns that others may still store to, 7 one that overwrites columns that others
/// may still load, 8 the same behind a barrier where nobody waits for the loads, 9 and where their results are used.
/// 10, no fault: a second commit signals the product, too. 11 nothing waits for a store before the columns are loaded.
/// 12, no fault: 64 products in a row add to the same columns, each with its commits, and only the last is waited for.
const char *const text = R"(
.version 8.7
.target sm_100a
.address_size 64
.visible .entry columns(.param .u64 out, .param .u32 product, .param .u32 fault) {
  .reg .pred %p<12>; .reg .b32 %r<17>; .reg .b64 %rd<9>;
  .shared .align 128 .b8 tile[8192];
  .shared .align 8 .b64 bar[2];
  .shared .b32 where;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [fault];
  ld.param.u32 %r14, [product];
  mov.u32 %r2, %tid.x;
  shr.u32 %r3, %r2, 5;
  mov.u32 %r4, tile;
  mov.u32 %r5, bar;
  mov.u32 %r6, where;
  mad.lo.u32 %r7, %r2, 64, %r4;
  mov.u32 %r8, 0;
  st.shared.v4.u32 [%r7], {%r8, %r8, %r8, %r8};
  st.shared.v4.u32 [%r7+16], {%r8, %r8, %r8, %r8};
  st.shared.v4.u32 [%r7+32], {%r8, %r8, %r8, %r8};
  st.shared.v4.u32 [%r7+48], {%r8, %r8, %r8, %r8};
  setp.eq.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r3, 0;
  setp.ne.u32 %p3, %r14, 0;
  setp.eq.u32 %p8, %r1, 12;
  selp.u32 %r16, 64, 1, %p8;
  @%p1 mbarrier.init.shared.b64 [%r5], %r16;
  @%p1 mbarrier.init.shared.b64 [%r5+8], %r16;
  fence.proxy.async.shared::cta;
  @!%p2 bra allocated;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r6], 32;
allocated:
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %r9, [where];
  shl.b32 %r10, %r3, 21;
  add.u32 %r10, %r10, %r9;
  setp.eq.u32 %p4, %r1, 2;
  @%p4 bra load;
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r10], {%r2};
  setp.eq.u32 %p5, %r1, 1;
  @%p5 bra end;
  setp.eq.u32 %p5, %r1, 11;
  @%p5 bra load;
  tcgen05.wait::st.sync.aligned;
  @!%p3 bra load;
  setp.eq.u32 %p6, %r1, 6;
  @%p6 bra stored;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
stored:
  setp.lt.u32 %p7, %r1, 7;
  setp.eq.or.u32 %p7, %r1, 10, %p7;
  setp.eq.or.u32 %p7, %r1, 12, %p7;
  @%p7 bra multiply;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r10];
  setp.eq.u32 %p7, %r1, 7;
  @%p7 bra wait;
  setp.eq.u32 %p7, %r1, 9;
  @%p7 add.u32 %r15, %r11, 0;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  bra multiply;
wait:
  tcgen05.wait::ld.sync.aligned;
multiply:
  @!%p1 bra multiplied;
  shr.u32 %r12, %r4, 4;
  cvt.u64.u32 %rd2, %r12;
  or.b64 %rd3, %rd2, 0x401000080000;
  setp.ne.u32 %p8, %r1, %r1;
  mov.u32 %r13, 0x8080010;
  mov.u32 %r12, %r5;
  add.u32 %r15, %r5, 8;
next:
  tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd3, %rd3, %r13, %p8;
  setp.eq.u32 %p9, %r1, 3;
  @%p9 bra multiplied;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r12];
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r15];
  setp.eq.u32 %p8, %r1, %r1;
  sub.u32 %r16, %r16, 1;
  setp.ne.u32 %p9, %r16, 0;
  @%p9 bra next;
multiplied:
  setp.eq.u32 %p9, %r1, 3;
  @%p9 bra end;
  setp.eq.u32 %p9, %r1, 10;
  @%p9 add.u32 %r5, %r5, 8;
again:
  mbarrier.try_wait.parity.shared.b64 %p10, [%r5], 0;
  @!%p10 bra again;
  tcgen05.fence::after_thread_sync;
load:
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r10];
  tcgen05.wait::ld.sync.aligned;
  mul.wide.u32 %rd4, %r2, 4;
  add.s64 %rd5, %rd1, %rd4;
  st.global.u32 [%rd5], %r11;
  setp.eq.u32 %p11, %r1, 4;
  @%p11 bra free;
end:
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
free:
  @!%p2 bra done;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
  setp.ne.u32 %p11, %r1, 5;
  @%p11 bra done;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r11}, [%r10];
  tcgen05.wait::ld.sync.aligned;
done:
  ret;
}
)";

std::string columns(int product, int fault) {
  return emulated::report_of(text, "columns", {1}, {128}, product, fault);
}

TEST(TensorMemory, CleanTwin) {
  EXPECT_EQ(columns(0, 0), "");
}
TEST(TensorMemory, CleanTwinWithProduct) {
  EXPECT_EQ(columns(1, 0), "");
}
TEST(TensorMemory, StoreNotWaitedFor) {
  expect_report(columns(0, 1), "no tcgen05.wait::st has waited for this store|still writes");
}
TEST(TensorMemory, NeverWritten) {
  expect_report(columns(0, 2), "of tensor memory, which was never written");
}
TEST(TensorMemory, NothingCommits) {
  expect_report(columns(1, 3), "is still in flight when the block ends|still writes");
}
TEST(TensorMemory, GivenBackTooEarly) {
  expect_report(columns(0, 4), "race): writes column|allocated are none");
}
TEST(TensorMemory, UsedAfterGivenBack) {
  expect_report(columns(0, 5), "allocated are none");
}
TEST(TensorMemory, ProductBeforeStores) {
  expect_report(columns(1, 6), "race): writes column|still writes");
}
TEST(TensorMemory, TheSecondCommitSignalsAsWellWhichIsClean) {
  EXPECT_EQ(columns(1, 10), "");
}
TEST(TensorMemory, ProductsInARowWithCommitsBetweenWhichIsClean) {
  EXPECT_EQ(columns(1, 12), "");
}
TEST(TensorMemory, ProductBeforeLoads) {
  expect_report(columns(1, 7), "race): writes column|still reads");
}
TEST(TensorMemory, ProductBeforeLoadsThatNobodyWaitsFor) {
  expect_report(columns(1, 8), "still reads");
}
TEST(TensorMemory, LoadBehindAStoreThatNobodyWaitsFor) {
  std::string report = columns(0, 11);
  expect_report(report, "behind this store, which no tcgen05.wait::st has waited for");
  EXPECT_FALSE(emulated::mentions(report, "race): |still writes")) << report;
}
TEST(TensorMemory, ProductBehindResultsThatNobodyWaitsFor) {
  std::string report = columns(1, 9);
  expect_report(report, "which no tcgen05.wait::ld has waited for");
  EXPECT_FALSE(emulated::mentions(report, "race): writes column|still reads")) << report;
}

}  // namespace
