// Faults that cards punish now and then: orders of memory and of proxies that nothing guarantees, stores and exchanges
// of lanes that are left open, and blocks that count on the order in which they begin. Small kernels, a fault or its
// correct twin each, run with FA_EMU_CHECK=2.
#include <cstdlib>

#include "mutant.h"

namespace {

using emulated::Array;
using emulated::expect_report;
using emulated::launch;

/// A kernel of these instructions; words and ready are its parameters (%rd1, %rd2), %r1 is the thread's number, %r2 the
/// block's, %rd3 the thread's word.
std::string kernel_of(const std::string &body) {
  return R"(
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 words, .param .u64 ready) {
  .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<16>;
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [words];
  ld.param.u64 %rd2, [ready];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd3, %rd3, %rd1;
)" + body +
         "\n  ret;\n}\n";
}

struct Shape {
  unsigned blocks = 1, threads = 32;
};

/// The report of one launch on 256 words of zeros, and the first words afterwards.
std::string report_of(const std::string &body, Shape shape = {}, std::vector<unsigned> expected = {}) {
  return emulated::reported([&] {
    emulated::start();
    Array<unsigned> words(std::vector<unsigned>(256)), ready(std::vector<unsigned>(64));
    launch(emulated::kernel(kernel_of(body), "k"), {shape.blocks}, {shape.threads}, 0, words.address, ready.address);
    if (expected.empty()) return;
    std::vector<unsigned> got = words.values();
    got.resize(expected.size());
    if (got != expected) std::fprintf(stderr, "wrong results: the first word is %u\n", got[0]);
  });
}

/// Block 0 hands a word a thread to block 1 by a flag.
std::string handed_over(const std::string &publish, const std::string &observe, const std::string &then = "") {
  return report_of(R"(
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra wait;
  st.global.u32 [%rd3], %r1;
  bar.sync 0;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra done;
  )" + publish + R"(
  bra done;
wait:
  )" + observe + R"(
  setp.eq.u32 %p3, %r4, 0;
  @%p3 bra wait;
  )" + then + R"(
  ld.global.u32 %r5, [%rd3];
  st.global.u32 [%rd3+512], %r5;
done:
)",
                   {2});
}

const std::string race = "race): reads global memory|race): writes global memory";
const std::string release = "st.release.gpu.global.u32 [%rd2], 1;", acquire = "ld.acquire.gpu.global.u32 %r4, [%rd2];";
const std::string store = "st.relaxed.gpu.global.u32 [%rd2], 1;", load = "ld.relaxed.gpu.global.u32 %r4, [%rd2];";

TEST(MemoryOrder, CleanTwin) {
  EXPECT_EQ(handed_over(release, acquire), "");
}
TEST(MemoryOrder, CleanTwinOfFences) {
  EXPECT_EQ(handed_over("fence.acq_rel.gpu; " + store, load, "fence.acq_rel.gpu;"), "");
}
TEST(MemoryOrder, CleanTwinOfVolatile) {
  EXPECT_EQ(
      handed_over("membar.gl; st.volatile.global.u32 [%rd2], 1;", "ld.volatile.global.u32 %r4, [%rd2];", "membar.gl;"),
      "");
}
TEST(MemoryOrder, CleanTwinOfAtomics) {
  EXPECT_EQ(handed_over("fence.sc.sys; red.global.add.u32 [%rd2], 1;", "atom.global.or.b32 %r4, [%rd2], 0;",
                        "fence.acq_rel.gpu;"),
            "");
}
TEST(MemoryOrder, ARelaxedStorePublishes) {
  expect_report(handed_over(store, acquire), race);
}
TEST(MemoryOrder, AnAtomicPublishes) {
  expect_report(handed_over("red.global.add.u32 [%rd2], 1;", acquire), race);
}
TEST(MemoryOrder, AVolatileStorePublishes) {
  expect_report(handed_over("st.volatile.global.u32 [%rd2], 1;", acquire), race);
}
TEST(MemoryOrder, ARelaxedLoadObserves) {
  expect_report(handed_over(release, load), race);
}
TEST(MemoryOrder, AVolatileLoadObserves) {
  expect_report(handed_over(release, "ld.volatile.global.u32 %r4, [%rd2];"), race);
}
TEST(MemoryOrder, TheFenceComesBehindTheStore) {
  expect_report(handed_over(store + " fence.acq_rel.gpu;", acquire), race);
}
TEST(MemoryOrder, ReleasedToTheBlockAlone) {
  expect_report(handed_over("st.release.cta.global.u32 [%rd2], 1;", acquire), race);
}
TEST(MemoryOrder, AcquiredFromTheBlockAlone) {
  expect_report(handed_over(release, "ld.acquire.cta.global.u32 %r4, [%rd2];"), race);
}
TEST(MemoryOrder, FencedForTheBlockAlone) {
  expect_report(handed_over("fence.acq_rel.cta; " + store, acquire), race);
}

/// Each block stores a word and counts itself; the last one adds the words up.
std::string last_block(const std::string &before, const std::string &behind, const std::string &access = "global") {
  return report_of(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  mul.wide.u32 %rd4, %r2, 4;
  add.s64 %rd4, %rd4, %rd1;
  add.u32 %r3, %r2, 1;
  st.)" + access + R"(.u32 [%rd4], %r3;
  )" + before + R"(
  atom.global.add.u32 %r4, [%rd2], 1;
  setp.ne.u32 %p2, %r4, 3;
  @%p2 bra done;
  )" + behind + R"(
  mov.u32 %r5, 0;
  mov.u32 %r6, 0;
  mov.u64 %rd5, %rd1;
next:
  ld.)" + access + R"(.u32 %r7, [%rd5];
  add.u32 %r5, %r5, %r7;
  add.s64 %rd5, %rd5, 4;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p3, %r6, 4;
  @%p3 bra next;
  st.global.u32 [%rd1+512], %r5;
done:
)",
                   {4});
}

TEST(LastBlock, CleanTwin) {
  EXPECT_EQ(last_block("membar.gl;", "membar.gl;"), "");
}
TEST(LastBlock, CleanTwinOfVolatileWords) {
  EXPECT_EQ(last_block("membar.gl;", "", "volatile.global"), "");
}
/// As torch's reductions: all threads fence, one counts.
TEST(LastBlock, CleanTwinOfABarrier) {
  EXPECT_EQ(report_of(R"(
  mad.lo.u32 %r3, %r2, 64, %r1;
  mul.wide.u32 %rd4, %r3, 4;
  add.s64 %rd4, %rd4, %rd1;
  st.global.u32 [%rd4], %r3;
  membar.gl;
  bar.sync 0;
  setp.ne.u32 %p1, %r1, 0;
  mov.u32 %r4, tile;
  @%p1 bra counted;
  atom.global.add.u32 %r5, [%rd2], 1;
  st.shared.u32 [%r4], %r5;
counted:
  bar.sync 0;
  ld.shared.u32 %r6, [%r4];
  setp.ne.u32 %p2, %r6, 3;
  @%p2 bra done;
  membar.gl;
  ld.global.u32 %r7, [%rd3];
  st.global.u32 [%rd3], %r7;
done:
)",
                      {4, 64}),
            "");
}
TEST(LastBlock, NoFenceBeforeItCounts) {
  expect_report(last_block("", "membar.gl;"), race);
}
TEST(LastBlock, NoFenceBehindTheCount) {
  expect_report(last_block("membar.gl;", ""), race);
}

std::string through_nc(const std::string &load_of) {
  return report_of(
      "st.global.u32 [%rd3], %r1;\n bar.sync 0;\n mul.wide.u32 %rd4, %r1, 4;\n add.s64 %rd5, %rd4, %rd2;\n" + load_of +
          "\n st.global.u32 [%rd3+512], %r4;\n",
      {1, 64});
}

TEST(Constant, CleanTwin) {
  EXPECT_EQ(through_nc("ld.global.u32 %r4, [%rd3];"), "");
}
TEST(Constant, CleanTwinOfOtherWords) {
  EXPECT_EQ(through_nc("ld.global.nc.u32 %r4, [%rd5];"), "");
}
TEST(Constant, ReadsWhatTheKernelWrote) {
  expect_report(through_nc("ld.global.nc.u32 %r4, [%rd3];"), "constant-written): reads by ld.global.nc");
}

/// A thread stores words, which a bulk copy reads; of another block where a flag is between.
std::string copied(const std::string &fence, const std::string &flag = "") {
  return report_of(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  setp.eq.u32 %p2, %r2, 1;
  @%p2 bra wait;
  st.global.u32 [%rd1], 5;
  st.global.u32 [%rd1+4], 6;
  st.global.u32 [%rd1+8], 7;
  st.global.u32 [%rd1+12], 8;
  )" + flag + R"(
wait:
  )" + (flag.empty() ? "" : acquire + "\n  setp.eq.u32 %p3, %r4, 0;\n  @%p3 bra wait;") +
                       R"(
  mbarrier.init.shared.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  )" + fence + R"(
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, [bar];
full:
  mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0;
  @!%p4 bra full;
  ld.shared.u32 %r5, [tile];
done:
)",
                   {flag.empty() ? 1u : 2u});
}

TEST(GlobalProxy, CleanTwin) {
  EXPECT_EQ(copied("fence.proxy.async;"), "");
}
TEST(GlobalProxy, CleanTwinOfAnotherBlock) {
  EXPECT_EQ(copied("fence.proxy.async.global;", release + " bra done;"), "");
}
TEST(GlobalProxy, CleanTwinOfTheOtherBlocksFence) {
  EXPECT_EQ(copied("", "fence.proxy.async; " + release + " bra done;"), "");
}
TEST(GlobalProxy, NoFence) {
  expect_report(copied(""), "proxy-fence): the async proxy reads global memory");
}
TEST(GlobalProxy, AFenceOfSharedMemoryAlone) {
  expect_report(copied("fence.proxy.async.shared::cta;"), "proxy-fence): the async proxy reads global memory");
}
TEST(GlobalProxy, NoFenceBetweenBlocks) {
  expect_report(copied("", release + " bra done;"), "proxy-fence): the async proxy reads global memory");
}

/// One bulk copy by an mbarrier, whose memory is used for something else afterwards.
std::string mbarrier(const std::string &fence, const std::string &then) {
  return report_of(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra made;
  mbarrier.init.shared.b64 [bar], 1;
  )" + fence + R"(
made:
  bar.sync 0;
  @%p1 bra wait;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, [bar];
wait:
  mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0;
  @!%p4 bra wait;
  bar.sync 0;
  @%p1 bra done;
  )" + then + R"(
done:
)",
                   {1, 64});
}

const std::string init_fence = "fence.mbarrier_init.release.cluster;";

TEST(NewMbarrier, CleanTwin) {
  EXPECT_EQ(mbarrier(init_fence, ""), "");
}
TEST(NewMbarrier, CleanTwinOfAProxyFence) {
  EXPECT_EQ(mbarrier("fence.proxy.async.shared::cta;", ""), "");
}
TEST(NewMbarrier, NoFence) {
  expect_report(mbarrier("", ""), "mbarrier-fence): the async proxy is to signal the mbarrier");
}
TEST(OldMbarrier, CleanTwin) {
  EXPECT_EQ(mbarrier(init_fence, "mbarrier.inval.shared.b64 [bar]; st.shared.u32 [bar], 7;"), "");
}
TEST(OldMbarrier, CleanTwinOfANewOne) {
  EXPECT_EQ(mbarrier(init_fence, "mbarrier.inval.shared.b64 [bar]; mbarrier.init.shared.b64 [bar], 1;"), "");
}
TEST(OldMbarrier, ItsMemoryIsWritten) {
  expect_report(mbarrier(init_fence, "st.shared.u32 [bar+4], 7;"), "mbarrier-reuse): writes shared memory");
}
TEST(OldMbarrier, ANewOneIsMade) {
  expect_report(mbarrier(init_fence, "mbarrier.init.shared.b64 [bar], 1;"), "mbarrier-reuse): makes an mbarrier");
}

/// A place of shared memory that a thread has stored to receives a bulk copy.
std::string overwritten(const std::string &fence) {
  return report_of(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  st.shared.u32 [tile], 7;
  ld.shared.u32 %r5, [tile];
  mbarrier.init.shared.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  )" + fence + R"(
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, [bar];
wait:
  mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0;
  @!%p4 bra wait;
done:
)");
}

TEST(OverwrittenByCopy, CleanTwin) {
  EXPECT_EQ(overwritten("fence.proxy.async.shared::cta;"), "");
}
TEST(OverwrittenByCopy, NoProxyFence) {
  expect_report(overwritten(""), "proxy-fence): the async proxy writes shared memory");
}

/// Two bulk copies to the same place, and a load of the first one's bytes between.
std::string read_and_overwritten(const std::string &fence) {
  return report_of(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  mbarrier.init.shared.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  mov.u32 %r3, 0;
again:
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, [bar];
wait:
  mbarrier.try_wait.parity.shared.b64 %p4, [bar], %r3;
  @!%p4 bra wait;
  ld.shared.u32 %r5, [tile];
  )" + fence + R"(
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, 2;
  @%p2 bra again;
done:
)");
}

TEST(ReadAndOverwritten, CleanTwin) {
  EXPECT_EQ(read_and_overwritten("fence.proxy.async.shared::cta;"), "");
}
TEST(ReadAndOverwritten, NoProxyFence) {
  expect_report(read_and_overwritten(""), "formal (reader-fence): the async proxy writes shared memory");
}

/// A bulk store, and an access to its rows behind it.
std::string behind_a_bulk_store(const std::string &wait, const std::string &then) {
  return report_of(R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  st.shared.v4.u32 [tile], {%r1, %r1, %r1, %r1};
  fence.proxy.async.shared::cta;
  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 16;
  cp.async.bulk.commit_group;
  )" + wait + "\n" +
                   then +
                   R"(
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
)");
}

const std::string same_rows = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 16;";

TEST(BulkStoreToRows, CleanTwin) {
  EXPECT_EQ(behind_a_bulk_store("cp.async.bulk.wait_group 0;", "st.global.u32 [%rd1], 5;"), "");
}
TEST(BulkStoreToRows, CleanTwinOfTwo) {
  EXPECT_EQ(behind_a_bulk_store("cp.async.bulk.wait_group 0;", same_rows), "");
}
TEST(BulkStoreToRows, CleanTwinOfOtherRows) {
  EXPECT_EQ(behind_a_bulk_store("", "st.global.u32 [%rd1+16], 5;"), "");
}
TEST(BulkStoreToRows, TwoWithoutAWait) {
  expect_report(behind_a_bulk_store("", same_rows), "pending-copy): writes global memory");
}
TEST(BulkStoreToRows, AStoreBehindIt) {
  expect_report(behind_a_bulk_store("", "st.global.u32 [%rd1], 5;"), "pending-copy): writes global memory");
}
TEST(BulkStoreToRows, ItHasReadAlone) {
  expect_report(behind_a_bulk_store("cp.async.bulk.wait_group.read 0;", "st.global.u32 [%rd1], 5;"),
                "pending-copy): writes global memory");
}
TEST(BulkStoreToRows, TheyAreReadBehindIt) {
  expect_report(behind_a_bulk_store("", "ld.global.u32 %r5, [%rd1];"), "pending-copy): reads global memory");
}

/// A kernel stores a tensor map, which is its parameter, in global memory, and copies a box by it.
std::string by_a_stored_map(const std::string &fences) {
  std::string text = R"(
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 place) {
  .reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  .shared .align 1024 .b8 tile[128];
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [place];
  mov.u32 %r1, 0;
)";
  for (int at = 0; at < 128; at += 8) {
    const std::string offset = "+" + std::to_string(at) + "]";
    text += "ld.param.u64 %rd2, [map" + offset + "; st.global.u64 [%rd1" + offset + ", %rd2;\n";
  }
  text += fences + R"(
  mbarrier.init.shared.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, {%r1, %r1}], [bar];
wait:
  mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
  @!%p1 bra wait;
  ret;
}
)";
  struct alignas(64) Map {
    uint8_t bytes[128];
  };
  return emulated::reported([&] {
    emulated::start();
    Array<unsigned> tensor(std::vector<unsigned>(256)), place(std::vector<unsigned>(64));
    Map map;
    const uint64_t extents[] = {64, 4}, strides[] = {256};
    const uint32_t box[] = {8, 4}, steps[] = {1, 1};
    constexpr uint32_t u32 = 2;
    if (emulated::call("cuTensorMapEncodeTiled", static_cast<void *>(&map), u32, 2u,
                       reinterpret_cast<void *>(tensor.address), &extents[0], &strides[0], &box[0], &steps[0], 0u, 0u,
                       0u, 0u) != CUDA_SUCCESS)
      std::fprintf(stderr, "no map\n");
    launch(emulated::kernel(text, "k"), {1}, {1}, 0, map, place.address);
  });
}

TEST(StoredMap, CleanTwin) {
  EXPECT_EQ(by_a_stored_map("fence.proxy.tensormap::generic.release.gpu; "
                            "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"),
            "");
}
TEST(StoredMap, NoFence) {
  expect_report(by_a_stored_map(""), "proxy-fence): a copy goes by a tensor map that");
}
TEST(StoredMap, AFenceOfTheAsyncProxy) {
  expect_report(by_a_stored_map("fence.proxy.async;"), "proxy-fence): a copy goes by a tensor map that");
}

TEST(StoreOfLanes, CleanTwin) {
  EXPECT_EQ(report_of("st.global.u32 [%rd1], 7; xor.b32 %r3, %r1, 5; shl.b32 %r3, %r3, 2; mov.u32 %r4, tile;"
                      "add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], %r1;"),
            "");
}
TEST(StoreOfLanes, DifferentValuesToAWord) {
  expect_report(report_of("st.global.u32 [%rd1], %r1;"), "lane-race): lanes 0 and 1 store different values");
}
TEST(StoreOfLanes, DifferentValuesToAWordOfSharedMemory) {
  expect_report(report_of("and.b32 %r3, %r1, 7; shl.b32 %r3, %r3, 2; mov.u32 %r4, tile; add.u32 %r3, %r3, %r4;"
                          "setp.lt.u32 %p1, %r1, 9; @%p1 st.shared.u32 [%r3], %r1;"),
                "lane-race): lanes 0 and 8 store different values");
}

std::string exchange(const std::string &mask) {
  return report_of("shfl.sync.bfly.b32 %r3, %r1, 1, 0x1f, " + mask + "; st.global.u32 [%rd3], %r3;");
}

TEST(MemberMask, CleanTwin) {
  EXPECT_EQ(exchange("-1"), "");
}
TEST(MemberMask, ItLacksLanesThatExecuteIt) {
  expect_report(exchange("0x0000ffff"), "member-mask): lanes ffffffff execute it with the member mask 0000ffff");
}

/// Two products of ones, 64 x 8 x 16 each; the second one begins with zeros that `between` stores into its registers.
std::string products(const std::string &before_the_wait, const std::string &between, const std::string &result) {
  std::string body = R"(
  mov.u32 %r3, tile;
  mad.lo.u32 %r4, %r1, 32, %r3;
  mov.u32 %r5, 0x3c003c00;
  st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};
  st.shared.v4.u32 [%r4+16], {%r5, %r5, %r5, %r5};
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r6, %r3, 4;
  cvt.u64.u32 %rd5, %r6;
  or.b64 %rd6, %rd5, 0x1000080000;
  add.s64 %rd7, %rd6, 128;
  setp.eq.u32 %p1, %r3, %r3;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.f32 %f4, 0f00000000;
)";
  const std::string multiply =
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd6, %rd7, %p1, 1, 1, 0, 0;\n"
      "wgmma.commit_group.sync.aligned;\n";
  body += "wgmma.fence.sync.aligned;\n" + multiply + before_the_wait + "\nwgmma.wait_group.sync.aligned 0;\n";
  if (!between.empty()) body += between + "\n" + multiply + "wgmma.wait_group.sync.aligned 0;\n";
  body += "cvt.rzi.u32.f32 %r7, " + result + ";\n st.global.u32 [%rd3], %r7;\n";
  return report_of(body, {1, 128}, std::vector<unsigned>(128, 16));
}

const std::string zeros =
    "mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.f32 %f4, 0f00000000;";

TEST(WgmmaFence, CleanTwin) {
  EXPECT_EQ(products("", zeros + " wgmma.fence.sync.aligned;", "%f2"), "");
}
TEST(WgmmaFence, CleanTwinOfZerosBehindIt) {
  EXPECT_EQ(products("", "wgmma.fence.sync.aligned; " + zeros, "%f2"), "");
}
TEST(WgmmaFence, NoneBehindZeros) {
  expect_report(products("", zeros, "%f2"), "wgmma-fence): uses register %f1");
}

TEST(WgmmaCopy, CleanTwin) {
  EXPECT_EQ(products("", "", "%f2"), "");
}
/// ptxas makes the copy wait; the value is the product's.
TEST(WgmmaCopy, MadeBeforeTheWait) {
  setenv("FA_EMU_FAIL_ON", "error", 1);
  std::string report = products("mov.f32 %f5, %f2;", "", "%f5");
  setenv("FA_EMU_FAIL_ON", "formal", 1);
  expect_report(report, "formal (serialised): copies register %f2");
  EXPECT_EQ(report.find("error"), std::string::npos) << report;
  EXPECT_EQ(report.find("wrong results"), std::string::npos) << report;
}

/// One block at a time; each waits for the one of the number before, or takes its number when it begins.
std::string turns(const char *starts, bool tickets) {
  return emulated::reported([&] {
    setenv("FA_EMU_STARTS", starts, 1);
    setenv("FA_EMU_DEVICE", "sm_90a:sms=1", 1);
    emulated::start();
    Array<unsigned> words(std::vector<unsigned>(256)), ready(std::vector<unsigned>(64));
    const std::string text = kernel_of(std::string(tickets ? "atom.global.add.u32 %r2, [%rd1], 1;\n" : "") + R"(
again:
  ld.acquire.gpu.global.u32 %r3, [%rd2];
  setp.ne.u32 %p1, %r3, %r2;
  @%p1 bra again;
  add.u32 %r3, %r3, 1;
  st.release.gpu.global.u32 [%rd2], %r3;
)");
    CUfunction function = emulated::kernel(text, "k");
    constexpr int max_dynamic_shared = 8;
    constexpr unsigned most = 200 << 10;
    emulated::call("cuFuncSetAttribute", function, max_dynamic_shared, static_cast<int>(most));
    launch(function, {6}, {1}, most, words.address, ready.address);
  });
}

TEST(StartOrder, CleanTwin) {
  EXPECT_EQ(turns("ascending", false), "");
}
TEST(StartOrder, CleanTwinOfTickets) {
  EXPECT_EQ(turns("reversed", true), "");
  EXPECT_EQ(turns("shuffled", true), "");
}
TEST(StartOrder, BlocksThatWaitForLowerNumbers) {
  expect_report(turns("reversed", false), "deadlock");
  expect_report(turns("shuffled", false), "deadlock");
}

}  // namespace
