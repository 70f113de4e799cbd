// Concurrency: kernels of several streams that wait for each other, for copies and for the program; and
// dependents that start before the kernel that they depend on has ended.
#include <atomic>
#include <chrono>
#include <thread>

#include "fixture.h"

namespace {

using namespace emulated;

/// Sets one flag, then waits for another; "hold" waits only, "set" sets only.
const char *const flags_ptx = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry set(.param .u64 mine)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [mine];
  mov.u32 %r1, 1;
  st.volatile.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry hold(.param .u64 other)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [other];
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
}
.visible .entry meet(.param .u64 mine, .param .u64 other)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [mine];
  ld.param.u64 %rd2, [other];
  mov.u32 %r1, 1;
  st.volatile.global.u32 [%rd1], %r1;
again:
  ld.volatile.global.u32 %r2, [%rd2];
  setp.eq.u32 %p1, %r2, 0;
  @%p1 bra again;
  ret;
}
.visible .entry count_while_zero(.param .u64 other)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<2>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [other];
  mov.u32 %r2, 0;
again:
  add.u32 %r2, %r2, 1;
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra again;
  ret;
}
)";

CUfunction function_of(const char *name) {
  start();
  static const CUmodule module = load(flags_ptx);
  CUfunction found = nullptr;
  EXPECT_EQ(call("cuModuleGetFunction", &found, module, name), CUDA_SUCCESS);
  return found;
}

/// shared: bytes of shared memory a block, which decide how many fit.
template <class... Parameters>
CUresult enqueue_with(unsigned shared, CUstream stream, const char *name, unsigned blocks, Parameters... parameters) {
  void *pointers[] = {&parameters...};
  return call("cuLaunchKernel", function_of(name), blocks, 1u, 1u, 1u, 1u, 1u, shared, stream,
              static_cast<void **>(pointers), static_cast<void **>(nullptr));
}
template <class... Parameters>
CUresult enqueue(CUstream stream, const char *name, unsigned blocks, Parameters... parameters) {
  return enqueue_with(0, stream, name, blocks, parameters...);
}

struct Flags : Array<unsigned> {
  Flags() : Array((start(), std::vector<unsigned>(8, 0))) {}
  CUdeviceptr at(unsigned i) const { return address + 4 * i; }
};

TEST(Concurrency, KernelsOfStreamsWaitForEachOther) {
  StreamHandle streams[3];
  Flags flags;
  for (unsigned i = 0; i < 3; i++)
    ASSERT_EQ(enqueue(streams[i], "meet", 4, flags.at(i), flags.at((i + 1) % 3)), CUDA_SUCCESS);
  for (const StreamHandle &stream : streams) EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
}

TEST(Concurrency, AKernelWaitsForACopyOfAnotherStream) {
  StreamHandle waits, copies;
  Flags flags;
  const unsigned one = 1;
  ASSERT_EQ(enqueue(waits, "hold", 4, flags.at(0)), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemcpyHtoDAsync_v2", flags.at(0), static_cast<const void *>(&one), size_t{4}, copies.handle),
            CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", waits.handle), CUDA_SUCCESS);
}

/// The loop's registers differ every time: it is not seen to wait, and makes room because it takes long.
TEST(Concurrency, AKernelThatCountsWhileItWaits) {
  StreamHandle waits, sets;
  Flags flags;
  ASSERT_EQ(enqueue(waits, "count_while_zero", 1, flags.at(0)), CUDA_SUCCESS);
  ASSERT_EQ(enqueue(sets, "set", 1, flags.at(0)), CUDA_SUCCESS);
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS);
}

TEST(Concurrency, AKernelWaitsForTheProgramWhileAnotherStreamCopies) {
  StreamHandle waits, copies;
  Flags values;
  void *pinned = nullptr;
  ASSERT_EQ(call("cuMemHostAlloc", &pinned, size_t{4}, 0u), CUDA_SUCCESS);
  auto *flag = static_cast<std::atomic<unsigned> *>(pinned);
  *flag = 0;
  ASSERT_EQ(enqueue(waits, "hold", 1, reinterpret_cast<CUdeviceptr>(pinned)), CUDA_SUCCESS);
  const unsigned seven = 7;
  unsigned back = 0;
  call("cuMemcpyHtoDAsync_v2", values.at(1), static_cast<const void *>(&seven), size_t{4}, copies.handle);
  call("cuMemcpyDtoHAsync_v2", static_cast<void *>(&back), values.at(1), size_t{4}, copies.handle);
  EXPECT_EQ(call("cuStreamSynchronize", copies.handle), CUDA_SUCCESS);
  EXPECT_EQ(back, 7u);
  EXPECT_EQ(call("cuStreamQuery", waits.handle), CUDA_ERROR_NOT_READY);
  *flag = 1;
  EXPECT_EQ(call("cuStreamSynchronize", waits.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemFreeHost", pinned), CUDA_SUCCESS);
}

/// While one thread of the program waits, another one may still set the flag.
TEST(Concurrency, AnotherThreadSetsTheFlagLate) {
  StreamHandle waits;
  void *pinned = nullptr;
  ASSERT_EQ(call("cuMemHostAlloc", &pinned, size_t{4}, 0u), CUDA_SUCCESS);
  auto *flag = static_cast<std::atomic<unsigned> *>(pinned);
  *flag = 0;
  ASSERT_EQ(enqueue(waits, "hold", 1, reinterpret_cast<CUdeviceptr>(pinned)), CUDA_SUCCESS);
  std::thread setter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    *flag = 1;
  });
  EXPECT_EQ(call("cuStreamSynchronize", waits.handle), CUDA_SUCCESS);
  setter.join();
  EXPECT_EQ(call("cuMemFreeHost", pinned), CUDA_SUCCESS);
}

TEST(Concurrency, BranchesOfAGraphWaitForEachOther) {
  StreamHandle first, second;
  EventHandle fork, join;
  Flags flags;
  ASSERT_EQ(call("cuStreamBeginCapture_v2", first.handle, 0), CUDA_SUCCESS);
  call("cuEventRecord", fork.handle, first.handle);
  call("cuStreamWaitEvent", second.handle, fork.handle, 0u);
  enqueue(first, "meet", 1, flags.at(0), flags.at(1));
  enqueue(second, "meet", 1, flags.at(1), flags.at(0));
  call("cuEventRecord", join.handle, second.handle);
  call("cuStreamWaitEvent", first.handle, join.handle, 0u);
  CUgraph graph = nullptr;
  ASSERT_EQ(call("cuStreamEndCapture", first.handle, &graph), CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(call("cuGraphInstantiateWithFlags", &executable, graph, 0ull), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGraphLaunch", executable, first.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", first.handle), CUDA_SUCCESS);
  call("cuGraphExecDestroy", executable);
  call("cuGraphDestroy", graph);
}

/// Runs a program that must end with a deadlock in a separate process.
template <class Body>
void expect_deadlock(Body body) {
  EXPECT_EXIT(
      {
        body();
        std::_Exit(call("cuCtxSynchronize") == CUDA_ERROR_LAUNCH_TIMEOUT ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Concurrency, OneStreamsKernelsDoNotOverlap) {
  expect_deadlock([] {
    StreamHandle stream;
    Flags flags;
    enqueue(stream, "hold", 1, flags.at(0));
    enqueue(stream, "set", 1, flags.at(0));
    call("cuStreamSynchronize", stream.handle);
  });
}

TEST(Concurrency, TheLegacyStreamDoesNotOverlapBlockingOnes) {
  expect_deadlock([] {
    StreamHandle blocking(0);
    Flags flags;
    enqueue(blocking, "hold", 1, flags.at(0));
    enqueue(CU_STREAM_LEGACY, "set", 1, flags.at(0));
    call("cuStreamSynchronize", blocking.handle);
  });
}

TEST(Concurrency, WhatWaitsForAnEventDoesNotOverlap) {
  expect_deadlock([] {
    StreamHandle first, second;
    EventHandle event;
    Flags flags;
    enqueue(first, "hold", 1, flags.at(0));
    call("cuEventRecord", event.handle, first.handle);
    call("cuStreamWaitEvent", second.handle, event.handle, 0u);
    enqueue(second, "set", 1, flags.at(0));
    call("cuStreamSynchronize", first.handle);
  });
}

/// Blocks that wait fill the device, one each SM, and the kernel that they wait for finds no room.
TEST(Concurrency, AFullDeviceHasNoRoomForOthers) {
  start();
  int sms = 0, most = 0, blocks = 0;
  constexpr int sm_count = 16, shared_optin = 97;
  call("cuDeviceGetAttribute", &sms, sm_count, 0);
  call("cuDeviceGetAttribute", &most, shared_optin, 0);
  for (const char *name : {"hold", "set"}) {
    CUfunction function = function_of(name);
    ASSERT_EQ(call("cuFuncSetAttribute", function, int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}, most),
              CUDA_SUCCESS);
    ASSERT_EQ(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, function, 1, static_cast<size_t>(most)),
              CUDA_SUCCESS);
    ASSERT_EQ(blocks, 1);
  }
  unsigned all = static_cast<unsigned>(sms), shared = static_cast<unsigned>(most);
  Flags flags;
  auto both = [&](unsigned holding) {
    StreamHandle first, second;
    enqueue_with(shared, first, "hold", holding, flags.at(0));
    while (call("cuStreamQuery", first.handle) != CUDA_ERROR_NOT_READY) {
    }
    enqueue_with(shared, second, "set", 1, flags.at(0));
    return call("cuStreamSynchronize", first.handle);
  };
  // Under a seed the second kernel may be the first to begin.
  if (!is_varied()) expect_deadlock([&] { both(all); });
  EXPECT_EQ(both(all - 1), CUDA_SUCCESS);
}

}  // namespace
