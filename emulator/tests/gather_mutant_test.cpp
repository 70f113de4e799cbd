// Faults around gather4 and scatter4 of rows of 128 bytes, by number. 0 is the clean twin.
#include "box_case.h"
#include "mutant.h"

namespace {

using emulated::expect_report;

/// gather: four rows to shared memory. 1 nobody waits, 2 the copy signals another mbarrier than the one that is waited
/// for, 3 the bytes of three rows are expected.
/// scatter: the threads' writes go to four rows. 1 no proxy fence, 2 nothing waits for the copy, 3 its
/// source is written again too early.
const std::string text = R"(
.version 8.6
.target sm_100a
.address_size 64
.visible .entry gather(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 fault) {
  .reg .pred %p<8>; .reg .b32 %r<14>; .reg .b64 %rd<6>;
  .shared .align 128 .b8 tile[512];
  .shared .align 8 .b64 bar[2];
  mov.u64 %rd2, map;
  cvta.param.u64 %rd2, %rd2;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  mov.u32 %r4, bar;
  setp.ne.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r1, 2;
  selp.u32 %r5, 8, 0, %p2;
  add.u32 %r5, %r5, %r4;
  setp.eq.u32 %p3, %r1, 3;
  selp.u32 %r6, 384, 512, %p3;
  @!%p1 mbarrier.init.shared.b64 [%r4], 1;
  @!%p1 mbarrier.init.shared.b64 [%r4+8], 1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 bra wait;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r5], %r6;
  @%p2 mbarrier.arrive.shared.b64 _, [%r4];
  mov.u32 %r7, 0;
  mov.u32 %r8, 6;
  mov.u32 %r9, 2;
  mov.u32 %r10, 9;
  cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
    [%r3], [%rd2, {%r7, %r8, %r9, %r10, %r9}], [%r5];
wait:
  setp.ne.u32 %p4, %r1, 1;
  mad.lo.u32 %r11, %r2, 4, %r3;
)" + emulated::receive("%p4", "%r4", "%r11") +
                         R"(
  ret;
}
.visible .entry scatter(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 fault) {
  .reg .pred %p<8>; .reg .b32 %r<14>; .reg .b64 %rd<6>;
  .shared .align 128 .b8 tile[512];
  mov.u64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  mad.lo.u32 %r4, %r2, 4, %r3;
  st.shared.u32 [%r4], %r2;
  setp.eq.u32 %p1, %r1, 1;
  @%p1 bra fenced;
  fence.proxy.async.shared::cta;
fenced:
  bar.sync 0;
  setp.ne.u32 %p3, %r2, 0;
  @%p3 bra done;
  mov.u32 %r7, 0;
  mov.u32 %r8, 6;
  mov.u32 %r9, 2;
  mov.u32 %r10, 9;
  mov.u32 %r11, 3;
  cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group
    [%rd1, {%r7, %r8, %r9, %r10, %r11}], [%r3];
  cp.async.bulk.commit_group;
  setp.eq.u32 %p4, %r1, 3;
  @%p4 st.shared.u32 [%r3], 7;
  setp.eq.u32 %p6, %r1, 2;
  @%p6 bra done;
  cp.async.bulk.wait_group 0;
done:
  ret;
}
)";

/// The report of a kernel over a tensor of 32 x 16 words.
std::string run(const char *kernel, int fault) {
  return emulated::reported([&] {
    emulated::start();
    emulated::Array<int> tensor(std::vector<int>(512)), out(std::vector<int>(128));
    emulated::BoxCase rows;
    rows.type = 2;
    rows.element = 4;
    rows.rank = 2;
    rows.box[0] = rows.extent[0] = 32;
    rows.extent[1] = 16;
    rows.stride[1] = 128;
    emulated::launch(emulated::kernel(text, kernel), {1}, {128}, 0, rows.encode(tensor.address), out.address, fault);
  });
}

TEST(Gather, CleanTwin) {
  EXPECT_EQ(run("gather", 0), "");
}
TEST(Gather, NobodyWaits) {
  expect_report(run("gather", 1), "still writes: nothing has waited for it");
}
TEST(Gather, SignalsAnotherMbarrier) {
  expect_report(run("gather", 2), "still writes: nothing has waited for it");
}
TEST(Gather, ThreeRowsExpected) {
  expect_report(run("gather", 3), "deadlock");
}

TEST(Scatter, CleanTwin) {
  EXPECT_EQ(run("scatter", 0), "");
}
TEST(Scatter, NoProxyFence) {
  expect_report(run("scatter", 1), "without a fence.proxy.async between");
}
TEST(Scatter, NothingWaits) {
  expect_report(run("scatter", 2), "nothing has waited for this asynchronous operation");
}
TEST(Scatter, SourceWrittenTooEarly) {
  expect_report(run("scatter", 3), "still reads: nothing has waited for it");
}

}  // namespace
