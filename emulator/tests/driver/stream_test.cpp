// Streams, events and host functions: the order of enqueued work, against the promises of the API.
#include <atomic>
#include <chrono>
#include <thread>

#include "fixture.h"

namespace {

using namespace emulated;

/// A host function that waits until the test opens it: operations behind it cannot have run.
struct Gate {
  std::atomic<bool> open{false};
  static void wait(void *gate) {
    while (!static_cast<Gate *>(gate)->open) std::this_thread::yield();
  }
};

TEST(Streams, OperationsRunInOrderAndLater) {
  StreamHandle stream;
  Array<unsigned> values(std::vector<unsigned>(32, 1));
  Gate gate;
  ASSERT_EQ(call("cuLaunchHostFunc", stream.handle, &Gate::wait, static_cast<void *>(&gate)), CUDA_SUCCESS);
  ASSERT_EQ(step(stream, values.address, 32, 3, 4), CUDA_SUCCESS);
  ASSERT_EQ(step(stream, values.address, 32, 10, 5), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamQuery", stream.handle), CUDA_ERROR_NOT_READY);
  gate.open = true;
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamQuery", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(values.values(), std::vector<unsigned>(32, 75));
}

TEST(Streams, ParametersAreCopiedAtTheCall) {
  StreamHandle stream;
  Array<unsigned> values(std::vector<unsigned>(1, 1));
  Gate gate;
  call("cuLaunchHostFunc", stream.handle, &Gate::wait, static_cast<void *>(&gate));
  std::vector<unsigned> pageable(1, 7);
  ASSERT_EQ(call("cuMemcpyHtoDAsync_v2", values.address, static_cast<const void *>(pageable.data()), size_t{4},
                 stream.handle),
            CUDA_SUCCESS);
  pageable[0] = 99;
  gate.open = true;
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(values.values()[0], 7u);
}

TEST(Streams, PinnedMemoryIsReadInTurn) {
  StreamHandle stream;
  Array<unsigned> values(std::vector<unsigned>(1, 1));
  void *pinned = nullptr;
  ASSERT_EQ(call("cuMemHostAlloc", &pinned, size_t{4}, 0u), CUDA_SUCCESS);
  unsigned *value = static_cast<unsigned *>(pinned);
  *value = 7;
  Gate gate;
  call("cuLaunchHostFunc", stream.handle, &Gate::wait, static_cast<void *>(&gate));
  call("cuMemcpyHtoDAsync_v2", values.address, static_cast<const void *>(pinned), size_t{4}, stream.handle);
  *value = 99;  // a program's bug, which is seen
  gate.open = true;
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(values.values()[0], 99u);
  EXPECT_EQ(call("cuMemFreeHost", pinned), CUDA_SUCCESS);
}

TEST(Streams, TheLegacyStreamWaitsForBlockingOnes) {
  StreamHandle blocking(0), free;
  Array<unsigned> values(std::vector<unsigned>(1, 1)), others(std::vector<unsigned>(1, 1));
  std::thread opener;
  Gate gate;
  call("cuLaunchHostFunc", blocking.handle, &Gate::wait, static_cast<void *>(&gate));
  step(blocking, values.address, 1, 2, 0);
  ASSERT_EQ(step(CU_STREAM_LEGACY, values.address, 1, 1, 100), CUDA_SUCCESS);  // behind the blocking stream
  EXPECT_EQ(call("cuStreamQuery", CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(step(blocking, values.address, 1, 3, 0), CUDA_SUCCESS);  // behind the legacy stream
  EXPECT_EQ(call("cuStreamQuery", free.handle), CUDA_SUCCESS);
  gate.open = true;
  EXPECT_EQ(call("cuStreamSynchronize", blocking.handle), CUDA_SUCCESS);
  EXPECT_EQ(values.values()[0], (1u * 2 + 100) * 3);
}

TEST(Streams, EventsOrderStreams) {
  StreamHandle first, second;
  EventHandle event;
  Array<unsigned> values(std::vector<unsigned>(1, 1));
  Gate gate;
  call("cuLaunchHostFunc", first.handle, &Gate::wait, static_cast<void *>(&gate));
  step(first, values.address, 1, 1, 4);
  ASSERT_EQ(call("cuEventRecord", event.handle, first.handle), CUDA_SUCCESS);
  ASSERT_EQ(call("cuStreamWaitEvent", second.handle, event.handle, 0u), CUDA_SUCCESS);
  step(second, values.address, 1, 10, 0);
  EXPECT_EQ(call("cuEventQuery", event.handle), CUDA_ERROR_NOT_READY);
  gate.open = true;
  EXPECT_EQ(call("cuStreamSynchronize", second.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuEventQuery", event.handle), CUDA_SUCCESS);
  EXPECT_EQ(values.values()[0], 50u);
}

TEST(Events, ElapsedTime) {
  StreamHandle stream;
  EventHandle begin, end, untimed(CU_EVENT_DISABLE_TIMING);
  float milliseconds = -1;
  EXPECT_EQ(call("cuEventElapsedTime_v2", &milliseconds, begin.handle, end.handle), CUDA_ERROR_INVALID_HANDLE);
  call("cuEventRecord", begin.handle, stream.handle);
  CUhostFn pause = [](void *) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  call("cuLaunchHostFunc", stream.handle, pause, static_cast<void *>(nullptr));
  call("cuEventRecord", end.handle, stream.handle);
  call("cuEventRecord", untimed.handle, stream.handle);
  EXPECT_EQ(call("cuEventSynchronize", end.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuEventElapsedTime_v2", &milliseconds, begin.handle, end.handle), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 19.f);
  EXPECT_EQ(call("cuEventElapsedTime_v2", &milliseconds, begin.handle, untimed.handle), CUDA_ERROR_INVALID_HANDLE);
}

TEST(Streams, HostFunctionsMayNotCallTheApi) {
  StreamHandle stream;
  static std::atomic<int> result{-1};
  CUhostFn asks = [](void *) { result = call("cuCtxSynchronize"); };
  call("cuLaunchHostFunc", stream.handle, asks, static_cast<void *>(nullptr));
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(result, CUDA_ERROR_NOT_PERMITTED);
}

TEST(Streams, PerThreadStreams) {
  start();
  CUcontext context = nullptr;
  call("cuCtxGetCurrent", &context);
  Array<unsigned> values(std::vector<unsigned>(1, 1));
  Gate gate;
  call("cuLaunchHostFunc", CU_STREAM_PER_THREAD, &Gate::wait, static_cast<void *>(&gate));
  EXPECT_EQ(call("cuStreamQuery_ptsz", static_cast<CUstream>(nullptr)), CUDA_ERROR_NOT_READY);
  std::thread other([&] {
    call("cuCtxSetCurrent", context);
    EXPECT_EQ(call("cuStreamQuery_ptsz", static_cast<CUstream>(nullptr)), CUDA_SUCCESS);
  });
  other.join();
  gate.open = true;
  EXPECT_EQ(call("cuStreamSynchronize_ptsz", static_cast<CUstream>(nullptr)), CUDA_SUCCESS);
}

TEST(Streams, WrongHandles) {
  start();
  EventHandle event;
  CUstream wrong = reinterpret_cast<CUstream>(event.handle);
  EXPECT_EQ(call("cuStreamSynchronize", wrong), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(call("cuEventQuery", reinterpret_cast<CUevent>(uintptr_t{64})), CUDA_ERROR_INVALID_HANDLE);
  CUstream stream = nullptr;
  call("cuStreamCreate", &stream, 0u);
  EXPECT_EQ(call("cuStreamDestroy_v2", stream), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamDestroy_v2", stream), CUDA_ERROR_INVALID_HANDLE);
}

/// A fault is seen where the program waits, and by every call from then on.
TEST(Faults, AreStickyAndComeLate) {
  EXPECT_EXIT(
      {
        StreamHandle stream;
        bool launched = step(stream, 0x1000, 1, 1, 1) == CUDA_SUCCESS;
        bool waited = call("cuStreamSynchronize", stream.handle) == CUDA_ERROR_ILLEGAL_ADDRESS;
        CUdeviceptr address = 0;
        bool stuck = call("cuMemAlloc_v2", &address, size_t{4}) == CUDA_ERROR_ILLEGAL_ADDRESS;
        bool reset = call("cuDevicePrimaryCtxReset_v2", 0) == CUDA_SUCCESS;
        CUcontext again = nullptr;
        bool retained = call("cuDevicePrimaryCtxRetain", &again, 0) == CUDA_SUCCESS;
        bool well = call("cuMemAlloc_v2", &address, size_t{4}) == CUDA_SUCCESS;
        std::_Exit(launched && waited && stuck && reset && retained && well ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
