// The checks on bulk copies, mbarriers and proxies: small kernels with a fault by number, run with FA_EMU_CHECK=2.
#include "mutant.h"

namespace {

using emulated::Array;
using emulated::expect_report;
using emulated::launch;

/// product: one wgmma over zeros that all threads have written. Faults: 1 nothing waits before its results are used,
/// 2 its source is written again too early, 3 no proxy fence, 4 nothing commits it, 5 a copy of its results is used
/// before the wait, 6 none, where cp.async brings the zeros, 7 no proxy fence there, 8 a copy is made before the wait
/// and used behind it. store: 128 threads write 512 bytes of shared memory, which one thread copies to global memory.
/// Faults: 1 no proxy fence, 2 no barrier, 3 nothing waits for the copy, 4 the source is written again too early. load:
/// the other way round, with an mbarrier. Faults: 1 nobody waits, 2 more bytes expected than come, 3 a second arrival.
const std::string text = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry store(.param .u64 to, .param .u32 fault) {
  .reg .pred %p<6>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
  .shared .align 128 .b8 tile[512];
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  mad.lo.u32 %r4, %r2, 4, %r3;
  st.shared.u32 [%r4], %r2;
  setp.eq.u32 %p1, %r1, 1;
  @%p1 bra fenced;
  fence.proxy.async.shared::cta;
fenced:
  setp.eq.u32 %p2, %r1, 2;
  @%p2 bra met;
  bar.sync 0;
met:
  setp.ne.u32 %p3, %r2, 0;
  @%p3 bra done;
  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 512;
  cp.async.bulk.commit_group;
  setp.eq.u32 %p4, %r1, 4;
  @%p4 st.shared.u32 [%r3], 7;
  setp.eq.u32 %p5, %r1, 3;
  @%p5 bra done;
  cp.async.bulk.wait_group 0;
done:
  ret;
}
.visible .entry product(.param .u64 to, .param .u32 fault) {
  .reg .pred %p<8>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
  .shared .align 128 .b8 tile[4096];
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  mad.lo.u32 %r4, %r2, 32, %r3;
  mov.u32 %r5, 0;
  st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};
  st.shared.v4.u32 [%r4+16], {%r5, %r5, %r5, %r5};
  setp.lt.u32 %p7, %r1, 6;
  @%p7 bra written;
  mul.wide.u32 %rd7, %r2, 16;
  add.s64 %rd7, %rd7, %rd1;
  cp.async.cg.shared.global [%r4], [%rd7], 16;
  cp.async.cg.shared.global [%r4+16], [%rd7], 16;
  cp.async.wait_all;
written:
  setp.eq.u32 %p1, %r1, 3;
  setp.eq.or.u32 %p1, %r1, 7, %p1;
  @%p1 bra fenced;
  fence.proxy.async.shared::cta;
fenced:
  bar.sync 0;
  shr.u32 %r6, %r3, 4;
  cvt.u64.u32 %rd2, %r6;
  or.b64 %rd3, %rd2, 0x1000080000;
  add.s64 %rd4, %rd3, 128;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.f32 %f4, 0f00000000;
  setp.ne.u32 %p2, %r1, 99;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd3, %rd4, %p2, 1, 1, 0, 0;
  setp.eq.u32 %p3, %r1, 4;
  @%p3 bra committed;
  wgmma.commit_group.sync.aligned;
committed:
  setp.eq.u32 %p4, %r1, 2;
  @%p4 st.shared.u32 [%r4], %r5;
  mov.f32 %f6, 0f00000000;
  mov.f32 %f7, 0f00000000;
  add.f32 %f8, %f7, %f7;
  setp.eq.u32 %p6, %r1, 5;
  setp.eq.or.u32 %p7, %r1, 8, %p6;
  @%p7 mov.f32 %f6, %f1;
  @%p7 mov.f32 %f7, %f2;
  mov.f32 %f7, 0f00000000;
  @%p6 add.f32 %f8, %f6, %f7;
  setp.eq.u32 %p5, %r1, 1;
  @%p5 bra waited;
  wgmma.wait_group.sync.aligned 0;
waited:
  mul.wide.u32 %rd5, %r2, 4;
  add.s64 %rd6, %rd1, %rd5;
  add.f32 %f5, %f6, %f2;
  add.f32 %f5, %f5, %f8;
  st.global.f32 [%rd6], %f5;
  ret;
}
.visible .entry load(.param .u64 from, .param .u64 to, .param .u32 fault) {
  .reg .pred %p<8>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  .shared .align 128 .b8 tile[512];
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  mov.u32 %r4, bar;
  setp.ne.u32 %p1, %r2, 0;
  @!%p1 mbarrier.init.shared.b64 [%r4], 1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 bra wait;
  setp.eq.u32 %p2, %r1, 2;
  selp.u32 %r5, 528, 512, %p2;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r4], %r5;
  setp.eq.u32 %p3, %r1, 3;
  @%p3 mbarrier.arrive.shared.b64 _, [%r4];
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2], 512, [%r4];
wait:
  setp.ne.u32 %p4, %r1, 1;
  mad.lo.u32 %r6, %r2, 4, %r3;
)" + emulated::receive("%p4", "%r4", "%r6") +
                         R"(
  ret;
}
)";

std::string store(int fault) {
  return emulated::report_of(text, "store", {1}, {128}, fault);
}
std::string product(int fault) {
  return emulated::report_of(text, "product", {1}, {128}, fault);
}
std::string load(int fault) {
  return emulated::reported([&] {
    emulated::start();
    Array<int> from(std::vector<int>(128, 3)), to(std::vector<int>(128));
    launch(emulated::kernel(text, "load"), {1}, {128}, 0, from.address, to.address, fault);
  });
}

TEST(BulkStore, CleanTwin) {
  EXPECT_EQ(store(0), "");
}
TEST(BulkStore, NoProxyFence) {
  expect_report(store(1), "without a fence.proxy.async between");
}
TEST(BulkStore, NoBarrier) {
  expect_report(store(2), "race): asynchronously reads");
}
TEST(BulkStore, NothingWaits) {
  expect_report(store(3), "nothing has waited for this asynchronous operation");
}
TEST(BulkStore, SourceWrittenTooEarly) {
  expect_report(store(4), "still reads: nothing has waited for it");
}

TEST(Product, CleanTwin) {
  EXPECT_EQ(product(0), "");
}
TEST(Product, ResultsUsedTooEarly) {
  expect_report(product(1), "is in use by the wgmma of");
}
TEST(Product, SourceWrittenTooEarly) {
  expect_report(product(2), "still reads: nothing has waited for it");
}
TEST(Product, NoProxyFence) {
  expect_report(product(3), "without a fence.proxy.async between");
}
TEST(Product, NothingCommits) {
  expect_report(product(4), "is in use by the wgmma of");
}

TEST(Product, ACopyOfResultsUsedTooEarly) {
  expect_report(product(5), "register %f6 is in use by the wgmma of");
}

TEST(Product, ACopyMadeBeforeTheWait) {
  std::string report = product(8);
  expect_report(report, "formal (serialised): copies register %f1");
  EXPECT_EQ(report.find("pending-register"), std::string::npos) << report;
}

TEST(Product, CleanTwinOfCopies) {
  EXPECT_EQ(product(6), "");
}
TEST(Product, NoProxyFenceBehindCopies) {
  expect_report(product(7), "without a fence.proxy.async between");
}

TEST(BulkLoad, CleanTwin) {
  EXPECT_EQ(load(0), "");
}
TEST(BulkLoad, NobodyWaits) {
  expect_report(load(1), "still writes: nothing has waited for it");
}
TEST(BulkLoad, MoreBytesExpectedThanCome) {
  expect_report(load(2), "deadlock");
}
TEST(BulkLoad, ASecondArrival) {
  expect_report(load(3), "arrivals at an mbarrier of which");
}

}  // namespace
