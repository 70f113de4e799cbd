// Faults between the threads of a block, between blocks and between the blocks of a cluster: small kernels with a fault
// by number, run with FA_EMU_CHECK=2. 0 is the clean twin.
#include "mutant.h"

namespace {

using emulated::Array;
using emulated::expect_report;
using emulated::launch;

/// neighbour: threads exchange words of global memory. 1 no barrier, 2 the last address is odd, 3 barrier 1 for 64
/// threads to some and 128 to others.
/// flag: block 0 hands 32 words to block 1 through a flag. 1 nobody waits, 2 nothing is released, 3 both write a word.
/// cluster: blocks of a pair read the other one's shared memory. 1 no barrier before, 2 none at the end,
/// 3 the same where only block 1 reads.
/// begun: blocks of a pair store into each other's shared memory. 1 no barrier before.
/// signal: block 1 stores into block 0 and arrives at its mbarrier. 1 block 0 does not wait, 2 a second arrival, 3 the
/// arrival comes before the store.
/// phases: warp 0 ends phase after phase, which warp 1 waits for. 1 it does not wait for warp 1.
const std::string text = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry neighbour(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<6>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  setp.eq.u32 %p1, %r1, 1;
  @%p1 bra met;
  setp.ne.u32 %p2, %r1, 3;
  @%p2 bra same;
  shr.u32 %r5, %r2, 5;
  setp.eq.u32 %p3, %r5, 0;
  selp.u32 %r6, 64, 128, %p3;
  bar.sync 1, %r6;
same:
  bar.sync 0;
met:
  xor.b32 %r3, %r2, 32;
  mul.wide.u32 %rd4, %r3, 4;
  add.s64 %rd5, %rd1, %rd4;
  setp.eq.u32 %p4, %r1, 2;
  selp.u64 %rd6, 2, 0, %p4;
  add.s64 %rd7, %rd5, %rd6;
  ld.global.u32 %r4, [%rd7];
  st.global.u32 [%rd3+512], %r4;
  ret;
}
.visible .entry flag(.param .u64 words, .param .u64 ready, .param .u32 fault) {
  .reg .pred %p<6>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [words];
  ld.param.u64 %rd2, [ready];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3;
  setp.ne.u32 %p1, %r3, 0;
  @%p1 bra wait;
  st.global.u32 [%rd4], %r2;
  bar.sync 0;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra done;
  setp.eq.u32 %p3, %r1, 2;
  @%p3 st.global.u32 [%rd2], 1;
  @!%p3 st.release.gpu.global.u32 [%rd2], 1;
  bra done;
wait:
  setp.eq.u32 %p4, %r1, 1;
  @%p4 bra read;
again:
  ld.acquire.gpu.global.u32 %r4, [%rd2];
  setp.eq.u32 %p5, %r4, 0;
  @%p5 bra again;
read:
  setp.eq.u32 %p5, %r1, 3;
  @%p5 bra write;
  ld.global.u32 %r5, [%rd4];
  st.global.u32 [%rd4+128], %r5;
  ret;
write:
  st.global.u32 [%rd2+4], %r2;
  ret;
done:
  setp.eq.u32 %p5, %r1, 3;
  @%p5 st.global.u32 [%rd2+4], %r2;
  ret;
}
.visible .entry cluster(.param .u64 words, .param .u32 fault) .reqnctapercluster 2 {
  .reg .pred %p<6>; .reg .b32 %r<12>; .reg .b64 %rd<9>;
  .shared .align 8 .b8 tile[128];
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %cluster_ctarank;
  xor.b32 %r4, %r3, 1;
  mov.u32 %r5, tile;
  mad.lo.u32 %r6, %r2, 4, %r5;
  st.shared.u32 [%r6], %r2;
  setp.eq.u32 %p1, %r1, 1;
  @%p1 bra read;
  barrier.cluster.arrive;
  barrier.cluster.wait;
read:
  setp.eq.u32 %p3, %r1, 3;
  setp.eq.u32 %p4, %r3, 0;
  and.pred %p3, %p3, %p4;
  @%p3 bra done;
  mapa.shared::cluster.u32 %r7, %r6, %r4;
  ld.shared::cluster.u32 %r8, [%r7];
  mad.lo.u32 %r9, %r3, 32, %r2;
  mul.wide.u32 %rd2, %r9, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r8;
  setp.ge.u32 %p2, %r1, 2;
  @%p2 bra done;
  barrier.cluster.arrive;
  barrier.cluster.wait;
done:
  ret;
}
.visible .entry begun(.param .u64 words, .param .u32 fault) .reqnctapercluster 2 {
  .reg .pred %p<3>; .reg .b32 %r<9>;
  .shared .align 8 .b8 tile[128];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %cluster_ctarank;
  xor.b32 %r4, %r3, 1;
  mov.u32 %r5, tile;
  mad.lo.u32 %r6, %r2, 4, %r5;
  setp.eq.u32 %p1, %r1, 1;
  @%p1 bra store;
  barrier.cluster.arrive;
  barrier.cluster.wait;
store:
  mapa.shared::cluster.u32 %r7, %r6, %r4;
  st.shared::cluster.u32 [%r7], %r2;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
.visible .entry signal(.param .u64 words, .param .u32 fault) .reqnctapercluster 2 {
  .reg .pred %p<8>; .reg .b32 %r<14>; .reg .b64 %rd<9>;
  .shared .align 8 .b8 tile[128];
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %cluster_ctarank;
  mov.u32 %r5, tile;
  mov.u32 %r10, bar;
  mad.lo.u32 %r6, %r2, 4, %r5;
  setp.eq.u32 %p1, %r2, 0;
  @%p1 mbarrier.init.shared.b64 [%r10], 32;
  setp.ne.u32 %p6, %r1, 4;
  @%p6 fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.relaxed;
  barrier.cluster.wait;
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra wait;
  mov.u32 %r4, 0;
  mapa.shared::cluster.u32 %r7, %r6, %r4;
  mapa.shared::cluster.u32 %r8, %r10, %r4;
  setp.eq.u32 %p3, %r1, 3;
  @%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];
  st.shared::cluster.u32 [%r7], %r2;
  @!%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];
  setp.eq.u32 %p4, %r1, 2;
  and.pred %p4, %p4, %p1;
  @%p4 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8], 33;
  bra end;
wait:
  setp.ne.u32 %p5, %r1, 1;
)" + emulated::receive("%p5", "%r10", "%r6") +
                         R"(
end:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
.visible .entry phases(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<8>; .reg .b32 %r<12>; .reg .b64 %rd<4>;
  .shared .align 8 .b64 full;
  .shared .align 8 .b64 empty;
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, full;
  mov.u32 %r4, empty;
  setp.eq.u32 %p1, %r2, 0;
  @%p1 mbarrier.init.shared.b64 [%r3], 32;
  @%p1 mbarrier.init.shared.b64 [%r4], 32;
  bar.sync 0;
  mov.u32 %r5, 0;
  setp.ge.u32 %p2, %r2, 32;
step:
  and.b32 %r6, %r5, 1;
  @%p2 bra waits;
  setp.eq.u32 %p3, %r1, 1;
  @%p3 nanosleep.u32 20;
  @%p3 bra arrives;
  xor.b32 %r7, %r6, 1;
free:
  mbarrier.try_wait.parity.shared.b64 %p4, [%r4], %r7;
  @!%p4 bra free;
arrives:
  mbarrier.arrive.shared.b64 _, [%r3];
  bra next;
waits:
  mbarrier.try_wait.parity.shared.b64 %p5, [%r3], %r6;
  @!%p5 bra waits;
  mbarrier.arrive.shared.b64 _, [%r4];
next:
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p6, %r5, 4;
  @%p6 bra step;
  ret;
}
)";

struct Run {
  const char *kernel;
  unsigned blocks, threads;
};

std::string run(const Run &what, int fault) {
  return emulated::report_of(text, what.kernel, {what.blocks}, {what.threads}, fault);
}

constexpr Run neighbour{"neighbour", 1, 128}, cluster{"cluster", 2, 32}, begun{"begun", 2, 32},
    signal_{"signal", 2, 32}, phases{"phases", 1, 64};

TEST(Block, CleanTwin) {
  EXPECT_EQ(run(neighbour, 0), "");
}
TEST(Block, NoBarrierOverGlobalMemory) {
  expect_report(run(neighbour, 1), "race): reads global memory|race): writes global memory");
}
TEST(Block, MisalignedGlobalAddress) {
  expect_report(run(neighbour, 2), "misaligned address");
}
TEST(Block, BarrierOfTwoCounts) {
  expect_report(run(neighbour, 3), "threads, and for");
}
TEST(Block, FreedMemory) {
  std::string report = emulated::reported([] {
    emulated::start();
    CUfunction function = emulated::kernel(text, "neighbour");
    CUdeviceptr freed = Array<int>(std::vector<int>(512)).address;
    launch(function, {1}, {128}, 0, freed, 0);
  });
  expect_report(report, "which is in no allocation");
}

std::string flag(int fault) {
  return emulated::reported([&] {
    emulated::start();
    Array<int> words(std::vector<int>(64)), ready(std::vector<int>(2));
    launch(emulated::kernel(text, "flag"), {2}, {32}, 0, words.address, ready.address, fault);
  });
}

TEST(Grid, CleanTwin) {
  EXPECT_EQ(flag(0), "");
}
TEST(Grid, NobodyWaits) {
  expect_report(flag(1), "race): reads global memory|race): writes global memory");
}
TEST(Grid, NothingIsReleased) {
  expect_report(flag(2), "race): reads global memory|race): writes global memory");
}
TEST(Grid, BothWrite) {
  expect_report(flag(3), "race): writes global memory|equal-values): writes global memory");
}

TEST(Cluster, CleanTwin) {
  EXPECT_EQ(run(cluster, 0), "");
}
TEST(Cluster, NoBarrierBefore) {
  expect_report(run(cluster, 1), "which was never written|race): ");
}
TEST(Cluster, NoBarrierAtTheEnd) {
  expect_report(run(cluster, 2), "that block may have ended before|which has ended");
}
TEST(Cluster, NoBarrierAfterABlockThatReads) {
  expect_report(run(cluster, 3), "that block may have ended before|which has ended");
}

TEST(Begun, CleanTwin) {
  EXPECT_EQ(run(begun, 0), "");
}
TEST(Begun, NoBarrierBeforeAStore) {
  expect_report(run(begun, 1), "which may not have begun yet");
}

TEST(Signal, CleanTwin) {
  EXPECT_EQ(run(signal_, 0), "");
}
TEST(Signal, NobodyWaits) {
  expect_report(run(signal_, 1), "which was never written|race): ");
}
TEST(Signal, TooManyArrivals) {
  expect_report(run(signal_, 2), "33 arrivals at an mbarrier of which");
}
TEST(Signal, ArrivesBeforeItStores) {
  expect_report(run(signal_, 3), "which was never written|race): ");
}
TEST(Signal, NothingReleasesTheMbarrier) {
  expect_report(run(signal_, 4), "race): reads shared memory");
}

TEST(Phases, CleanTwin) {
  EXPECT_EQ(run(phases, 0), "");
}
TEST(Phases, APhaseThatNobodyMayHaveSeen) {
  expect_report(run(phases, 1), "may not have seen that|deadlock");
}

}  // namespace
