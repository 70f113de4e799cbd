// Operations of several streams that touch the same bytes, with something that orders them or with nothing. Run with
// FA_EMU_CHECK=2.
#include <atomic>
#include <thread>

#include "stream_kernels.h"

namespace {

using namespace stream_test;
using emulated::expect_report;

const std::string race = "stream-race): launch ";

TEST(StreamOrder, CleanTwin) {
  EXPECT_EQ(report_of([](Setting &s) {
              for (int i = 0; i < 3; i++) s.launch("write", s.a, s.at), s.launch("read", s.a, s.at, s.apart);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfAnEvent) {
  EXPECT_EQ(report_of([](Setting &s) {
              for (int i = 0; i < 3; i++) {
                s.launch("write", s.a, s.at);
                s.wait_for(s.a, s.b);
                s.launch("read", s.b, s.at, s.apart);
                s.wait_for(s.b, s.a);
              }
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfAWait) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("write", s.a, s.at);
              call("cuStreamSynchronize", s.a.handle);
              s.launch("read", s.b, s.at, s.apart);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfAQuestion) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("write", s.a, s.at);
              while (call("cuStreamQuery", s.a.handle) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
              s.launch("read", s.b, s.at, s.apart);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfTheLegacyStream) {
  EXPECT_EQ(report_of([](Setting &s) {
              Stream blocking(0), legacy(0);
              legacy.handle = nullptr;
              s.launch("write", blocking, s.at);
              s.launch("read", legacy, s.at, s.apart);
              s.launch("write", blocking, s.at);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfOtherBytes) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("write", s.a, s.at + 4);
              s.launch("write", s.b, s.at + 4 + 32 * 4);
              call("cuMemsetD8Async", CUdeviceptr{s.at + 2}, static_cast<unsigned char>(7), size_t{2}, s.b.handle);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfReaders) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("read", s.a, s.at, s.apart);
              s.launch("read", s.b, s.at, s.apart + 1024);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfAtomics) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("count", s.a, s.at);
              s.launch("count", s.b, s.at);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfAHostFunction) {
  EXPECT_EQ(report_of([](Setting &s) {
              std::atomic<bool> reached{false};
              void (*function)(void *) = [](void *flag) { *static_cast<std::atomic<bool> *>(flag) = true; };
              s.launch("write", s.a, s.at);
              call("cuLaunchHostFunc", s.a.handle, function, static_cast<void *>(&reached));
              while (!reached) std::this_thread::yield();
              s.launch("read", s.b, s.at, s.apart);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfAFlag) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("hand_over", s.a, s.at, s.apart);
              s.launch("take", s.b, s.at, s.apart);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfAFlagThatIsWaitedFor) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("take", s.b, s.at, s.apart);
              s.launch("hand_over", s.a, s.at, s.apart);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfAFlagThatAMemsetSets) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("take", s.b, s.at, s.apart);
              call("cuMemsetD32Async", CUdeviceptr{s.apart}, 1u, size_t{1}, s.a.handle);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfAValue) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("write", s.a, s.at);
              call("cuStreamWriteValue32_v2", s.a.handle, CUdeviceptr{s.apart}, uint32_t{7}, 0u);
              call("cuStreamWaitValue32_v2", s.b.handle, CUdeviceptr{s.apart}, uint32_t{7}, 1u);
              s.launch("read", s.b, s.at, s.apart);
            }),
            "");
}
TEST(StreamOrder, CleanTwinOfADependent) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("write", s.a, s.at);
              s.launch("read", s.a, s.at, s.apart, true);
              s.launch("write", s.a, s.at);
            }),
            "");
}

/// A graph of two branches, which a join of the first into the second orders or does not.
std::string branches(bool joined) {
  return report_of([&](Setting &s) {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    call("cuStreamBeginCapture_v2", s.a.handle, 1);
    s.wait_for(s.a, s.b);
    s.launch("write", s.a, s.at);
    if (joined) s.wait_for(s.a, s.b);
    s.launch("read", s.b, s.at, s.apart);
    s.wait_for(s.b, s.a);
    call("cuStreamEndCapture", s.a.handle, &graph);
    call("cuGraphInstantiateWithFlags", &exec, graph, 0ull);
    call("cuGraphLaunch", exec, s.a.handle);
    call("cuGraphLaunch", exec, s.a.handle);
  });
}

TEST(StreamOrder, CleanTwinOfAGraph) {
  EXPECT_EQ(branches(true), "");
}
TEST(StreamOrder, BranchesOfAGraph) {
  expect_report(branches(false), race);
}

TEST(StreamOrder, NoEvent) {
  const std::string report = report_of([](Setting &s) {
    s.launch("write", s.a, s.at);
    s.launch("read", s.b, s.at, s.apart);
  });
  expect_report(report, race);
  // Both lines, whichever ran first.
  EXPECT_TRUE(emulated::mentions(report, "(st.global.u32)|(ld.global.u32)")) << report;
  EXPECT_TRUE(emulated::mentions(report, "[kernel read|[kernel write")) << report;
}
TEST(StreamOrder, TheReaderComesFirst) {
  expect_report(report_of([](Setting &s) {
                  s.launch("read", s.a, s.at, s.apart);
                  s.launch("write", s.b, s.at);
                }),
                race);
}
TEST(StreamOrder, BothWrite) {
  expect_report(report_of([](Setting &s) {
                  s.launch("write", s.a, s.at);
                  s.launch("write", s.b, s.at + 31 * 4);
                }),
                race);
}
TEST(StreamOrder, TheEventIsRecordedTooEarly) {
  expect_report(report_of([](Setting &s) {
                  s.wait_for(s.a, s.b);
                  s.launch("write", s.a, s.at);
                  s.launch("read", s.b, s.at, s.apart);
                }),
                race);
}
TEST(StreamOrder, AStreamThatDoesNotBlockAndTheLegacyOne) {
  expect_report(report_of([](Setting &s) {
                  Stream legacy;
                  legacy.handle = nullptr;
                  s.launch("write", s.a, s.at);
                  s.launch("read", legacy, s.at, s.apart);
                }),
                race);
}
TEST(StreamOrder, AWaitForAnotherStream) {
  expect_report(report_of([](Setting &s) {
                  s.launch("write", s.a, s.at);
                  call("cuStreamSynchronize", s.b.handle);
                  s.launch("read", s.b, s.at, s.apart);
                }),
                race);
}
/// Its counter is touched by atomics alone; the memory behind it is not.
TEST(StreamOrder, AWorkspaceOfTwoLaunches) {
  expect_report(report_of([](Setting &s) {
                  s.launch("scratch", s.a, s.at);
                  s.launch("scratch", s.b, s.at);
                }),
                race);
}
TEST(StreamOrder, ACopyOfWordsThatAKernelWrites) {
  expect_report(report_of([](Setting &s) {
                  s.launch("write", s.a, s.at);
                  call("cuMemcpyDtoDAsync_v2", CUdeviceptr{s.apart}, CUdeviceptr{s.at}, size_t{64}, s.b.handle);
                }),
                "stream-race): a copy of 64 bytes in stream|stream-race): launch ");
}
TEST(StreamOrder, AMemsetOfWordsThatACopyReads) {
  expect_report(report_of([](Setting &s) {
                  call("cuMemcpyDtoDAsync_v2", CUdeviceptr{s.apart}, CUdeviceptr{s.at}, size_t{64}, s.a.handle);
                  call("cuMemsetD8Async", CUdeviceptr{s.at + 63}, static_cast<unsigned char>(7), size_t{9}, s.b.handle);
                }),
                "stream-race): a memset of 9 bytes in stream|stream-race): a copy of 64 bytes in stream");
}
TEST(StreamOrder, ADependentThatDoesNotWait) {
  expect_report(report_of([](Setting &s) {
                  s.launch("write", s.a, s.at);
                  s.launch("late", s.a, s.at, s.apart, true);
                }),
                race);
}

TEST(StreamOrder, ADependentThatReadsBeforeItWaits) {
  expect_report(report_of([](Setting &s) {
                  s.launch("write", s.a, s.at);
                  s.launch("early", s.a, s.at, s.apart, true);
                }),
                "(st.global.u32), before griddepcontrol.wait");
}
/// It reads before its wait, but from a launch that its primary has waited for.
TEST(StreamOrder, CleanTwinOfADependentOfADependent) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("write", s.a, s.at);
              s.launch("wait_first", s.a, s.apart, 0, true);
              s.launch("early", s.a, s.at, s.apart, true);
            }),
            "");
}
/// One warp waits, and the others at a barrier behind it.
TEST(StreamOrder, CleanTwinOfABarrierBehindTheWait) {
  EXPECT_EQ(report_of([](Setting &s) {
              s.launch("write", s.a, s.at);
              s.launch("barrier", s.a, s.at, s.apart, true, 64);
            }),
            "");
}

/// Memory in the order of a stream, which another one uses.
std::string in_stream_order(bool behind_allocation, bool before_free) {
  return report_of([&](Setting &s) {
    CUdeviceptr address = 0;
    call("cuMemAllocAsync", &address, size_t{4096}, s.a.handle);
    if (behind_allocation) s.wait_for(s.a, s.b);
    s.launch("write", s.b, address);
    if (before_free)
      s.wait_for(s.b, s.a);
    else
      call("cuStreamSynchronize", s.b.handle), s.launch("write", s.b, address + 2048);
    call("cuMemFreeAsync", address, s.a.handle);
  });
}

TEST(StreamOrder, CleanTwinOfMemoryInOrder) {
  EXPECT_EQ(in_stream_order(true, true), "");
}
TEST(StreamOrder, AllocatedInAnotherStream) {
  expect_report(in_stream_order(false, true),
                "which cuMemAllocAsync in stream|stream-race): cuMemAllocAsync in stream");
}
TEST(StreamOrder, FreedInAnotherStream) {
  expect_report(in_stream_order(true, false),
                "stream-race): cuMemFreeAsync in stream|which cuMemFreeAsync in stream|illegal address");
}

}  // namespace
