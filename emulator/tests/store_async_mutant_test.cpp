// Faults around st.async, red.async and bulk reductions into another block's shared memory. 0 is the clean twin.
#include "mutant.h"

namespace {

using emulated::expect_report;

/// given: block 1 sends a word a lane by st.async. 1 block 0 does not wait, 2 the store signals the other mbarrier
/// there, which nobody looks at, 3 it signals the sender's own, 4 the sender waits for its cp.async and then for block
/// 0 instead, 5 block 0 may still read the old value. counted: every lane of both blocks adds to one word of
/// block 0 by red.async. 1 block 0 does not wait, 2 nobody has written the word before, 3 a lane of block 1 then stores
/// to it, 4 half of the bytes are expected. summed: both blocks add 32 words to block 0's by cp.reduce.async.bulk. 1
/// block 0 does not wait. turns: block 1 sends a word by st.async each time that block 0 has said that there is room,
/// and says nothing else; block 0 takes it. 1 block 0 says so before it waits for the word.
const std::string text = R"(
.version 8.1
.target sm_90a
.address_size 64
.visible .entry given(.param .u64 words, .param .u32 fault) .reqnctapercluster 2 {
  .reg .pred %p<12>; .reg .b32 %r<14>; .reg .b64 %rd<9>;
  .shared .align 8 .b8 tile[128];
  .shared .align 8 .b64 bar[2];
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %cluster_ctarank;
  mov.u32 %r5, tile;
  mov.u32 %r10, bar;
  mad.lo.u32 %r6, %r2, 4, %r5;
  setp.eq.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r3, 0;
  setp.eq.u32 %p3, %r1, 2;
  selp.u32 %r4, 0, 128, %p3;
  @%p1 mbarrier.init.shared.b64 [%r10], 1;
  @%p1 mbarrier.init.shared.b64 [%r10+8], 1;
  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], %r4;
  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10+8], 128;
  fence.mbarrier_init.release.cluster;
  setp.eq.u32 %p4, %r1, 5;
  and.pred %p4, %p4, %p2;
  @%p2 st.shared.u32 [%r6], %r2;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  @%p4 ld.shared.u32 %r11, [%r6];
  @%p2 bra receive;
  mov.u32 %r4, 0;
  mapa.shared::cluster.u32 %r7, %r6, %r4;
  mapa.shared::cluster.u32 %r8, %r10, %r4;
  @%p3 add.u32 %r8, %r8, 8;
  setp.eq.u32 %p5, %r1, 3;
  @%p5 mov.u32 %r8, %r10;
  st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r2, [%r8];
  setp.eq.u32 %p6, %r1, 4;
  @!%p6 ret;
  cp.async.wait_all;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
receive:
  setp.ne.u32 %p7, %r1, 1;
  setp.ne.u32 %p6, %r1, 4;
  and.pred %p7, %p7, %p6;
  @%p6 bra look;
  barrier.cluster.arrive;
  barrier.cluster.wait;
look:
)" + emulated::receive("%p7", "%r10", "%r6") +
                         R"(
  ret;
}
.visible .entry counted(.param .u64 words, .param .u32 fault) .reqnctapercluster 2 {
  .reg .pred %p<12>; .reg .b32 %r<14>; .reg .b64 %rd<9>;
  .shared .align 4 .b32 count;
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %cluster_ctarank;
  mov.u32 %r5, count;
  mov.u32 %r10, bar;
  setp.eq.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r3, 0;
  setp.eq.u32 %p3, %r1, 4;
  selp.u32 %r4, 128, 256, %p3;
  @%p1 mbarrier.init.shared.b64 [%r10], 1;
  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], %r4;
  fence.mbarrier_init.release.cluster;
  setp.ne.u32 %p4, %r1, 2;
  and.pred %p4, %p4, %p1;
  @%p4 st.shared.u32 [%r5], 0;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  mov.u32 %r4, 0;
  mapa.shared::cluster.u32 %r7, %r5, %r4;
  mapa.shared::cluster.u32 %r8, %r10, %r4;
  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r7], %r2, [%r8];
  @%p2 bra receive;
  setp.eq.u32 %p5, %r1, 3;
  and.pred %p5, %p5, %p1;
  @%p5 st.shared::cluster.u32 [%r7], 9;
  bra done;
receive:
  setp.ne.u32 %p7, %r1, 1;
)" + emulated::receive("%p7", "%r10", "%r5") +
                         R"(
done:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
.visible .entry summed(.param .u64 words, .param .u32 fault) .reqnctapercluster 2 {
  .reg .pred %p<12>; .reg .b32 %r<14>; .reg .b64 %rd<9>;
  .shared .align 16 .b8 mine[128];
  .shared .align 16 .b8 sums[128];
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %cluster_ctarank;
  mov.u32 %r4, mine;
  mov.u32 %r5, sums;
  mov.u32 %r10, bar;
  mad.lo.u32 %r6, %r2, 4, %r4;
  st.shared.u32 [%r6], %r2;
  mad.lo.u32 %r6, %r2, 4, %r5;
  st.shared.u32 [%r6], 0;
  fence.proxy.async;
  setp.eq.u32 %p1, %r2, 0;
  setp.eq.u32 %p2, %r3, 0;
  @%p1 mbarrier.init.shared.b64 [%r10], 1;
  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 256;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  mov.u32 %r9, 0;
  mapa.shared::cluster.u32 %r7, %r5, %r9;
  mapa.shared::cluster.u32 %r8, %r10, %r9;
  @%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r7], [%r4], 128, [%r8];
  @!%p2 bra done;
  setp.ne.u32 %p7, %r1, 1;
)" + emulated::receive("%p7", "%r10", "%r6") +
                         R"(
done:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
.visible .entry turns(.param .u64 words, .param .u32 fault) .reqnctapercluster 2 {
  .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
  .shared .align 8 .b8 tile[16];
  .shared .align 8 .b64 bar[2];
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %cluster_ctarank;
  mov.u32 %r4, tile;
  mov.u32 %r5, bar;
  mov.u32 %r6, 0;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra begun;
  mbarrier.init.shared.b64 [%r5], 1;
  mbarrier.init.shared.b64 [%r5+8], 1;
  fence.mbarrier_init.release.cluster;
begun:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  @%p1 bra done;
  setp.eq.u32 %p2, %r3, 0;
  setp.eq.u32 %p3, %r1, 1;
  mapa.shared::cluster.u32 %r7, %r4, 0;
  mapa.shared::cluster.u32 %r8, %r5, 0;
  mapa.shared::cluster.u32 %r9, %r5, 1;
  @%p2 bra take;
send:
  and.b32 %r10, %r6, 1;
  xor.b32 %r10, %r10, 1;
room:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r5+8], %r10;
  @!%p4 bra room;
  st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r6, [%r8];
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p5, %r6, 5;
  @%p5 bra send;
  bra done;
take:
  and.b32 %r10, %r6, 1;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 4;
  @%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9+8];
word:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r5], %r10;
  @!%p4 bra word;
  ld.shared.u32 %r11, [%r4];
  st.global.u32 [%rd1], %r11;
  @!%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9+8];
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p5, %r6, 5;
  @%p5 bra take;
done:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
)";

std::string run(const char *kernel, int fault) {
  return emulated::report_of(text, kernel, {2}, {32}, fault);
}

TEST(AsyncStore, CleanTwin) {
  EXPECT_EQ(run("given", 0), "");
}
TEST(AsyncStore, NobodyWaits) {
  expect_report(run("given", 1), "nothing has waited for it|race): ");
}
TEST(AsyncStore, SignalsAnotherMbarrier) {
  expect_report(run("given", 2), "nothing has waited for it|race): ");
}
TEST(AsyncStore, SignalsTheSendersMbarrier) {
  expect_report(run("given", 3), "deadlock");
}
TEST(AsyncStore, TheSenderWaitsForItsCopies) {
  expect_report(run("given", 4), "nothing has waited for it|race): ");
}
TEST(AsyncStore, WordsMayStillBeRead) {
  expect_report(run("given", 5), "nothing has waited for it|race): ");
}

TEST(AsyncStore, CleanTwinOfTurns) {
  EXPECT_EQ(run("turns", 0), "");
}
TEST(AsyncStore, RoomBeforeTheWordHasCome) {
  expect_report(run("turns", 1), "may not have seen|still writes|race): |of which 0 of 1 are pending|deadlock");
}

TEST(AsyncReduction, CleanTwin) {
  EXPECT_EQ(run("counted", 0), "");
}
TEST(AsyncReduction, NobodyWaits) {
  expect_report(run("counted", 1), "nothing has waited for it|race): ");
}
TEST(AsyncReduction, NeverWritten) {
  expect_report(run("counted", 2), "asynchronously reduces shared memory at offset");
}
TEST(AsyncReduction, AStoreInBetween) {
  expect_report(run("counted", 3), "nothing has waited for it|race): ");
}
TEST(AsyncReduction, HalfOfTheBytesExpected) {
  expect_report(run("counted", 4), "nothing has waited for it|race): ");
}

TEST(BulkReduction, CleanTwin) {
  EXPECT_EQ(run("summed", 0), "");
}
TEST(BulkReduction, NobodyWaits) {
  expect_report(run("summed", 1), "nothing has waited for it|race): ");
}

}  // namespace
