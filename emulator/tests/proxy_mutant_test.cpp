// Generic accesses and the async proxy's to the same memory without the fence or the wait between them that bulk
// copies, mbarriers and tensor maps need. Small kernels, a fault or its correct twin each, run with FA_EMU_CHECK=2.
#include "word_kernel.h"

namespace {

using namespace words;

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

}  // namespace
