// Contexts and streams: the caller's own, several, those that end, and captures in them.
#include <atomic>
#include <thread>

#include "cuda/fixture.h"
#include "reference/gpu.h"

namespace cuda_test {
namespace {

size_t contexts_depth() {
  CUcontext context = nullptr;
  EXPECT_EQ(call("cuCtxGetCurrent", &context), CUDA_SUCCESS);
  return reinterpret_cast<size_t>(context);
}

TEST(Context, NoneIsNeededAndNoneIsLeft) {
  EXPECT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  EXPECT_EQ(contexts_depth(), 0u);
  const Op op(desc_of(small_case()));
  ASSERT_EQ(op.status, FA_OK) << fa_last_error();
  EXPECT_EQ(contexts_depth(), 0u);
  for (const Where where : {Where::device, Where::managed, Where::pinned}) {
    std::unique_ptr<Call> own;
    {
      const InContext in;
      own = std::make_unique<Call>(small_case(), where);
    }
    EXPECT_EQ(fa_forward(op.op, &own->args), FA_OK) << fa_last_error();
    EXPECT_EQ(contexts_depth(), 0u);
    const InContext in;
    EXPECT_EQ(own->failure(), "");
    own.reset();
  }
}

TEST(Context, ThePrimaryOneIsRetainedAgainAfterAReset) {
  for (int round = 0; round < 2; ++round) {
    const Op op(desc_of(small_case()));
    ASSERT_EQ(op.status, FA_OK) << fa_last_error();
    unsigned flags = 0;
    int active = 0;
    ASSERT_EQ(call("cuDevicePrimaryCtxGetState", 0, &flags, &active), CUDA_SUCCESS);
    EXPECT_EQ(active, 1);
    ASSERT_EQ(call("cuDevicePrimaryCtxReset_v2", 0), CUDA_SUCCESS);
  }
}

TEST(Context, TheCallersOwnIsUsed) {
  const InContext in(0, InContext::own);
  const Op op(desc_of(split_case()));
  Call own(split_case());
  const Stream stream;
  own.args.stream = stream.handle;
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
  EXPECT_EQ(contexts_depth(), reinterpret_cast<size_t>(in.handle));
}

TEST(Context, TheTensorsDecideAndOthersAreLoadedWhenTheyCome) {
  InContext first(0, InContext::own);
  const Op op(desc_of(small_case()));
  Call in_first(small_case());
  const InContext second(0, InContext::own);
  Call in_second(small_case());
  const InContext other(device_count() > 1 ? 1 : 0);
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(fa_forward(op.op, &in_first.args), FA_OK) << fa_last_error();
    ASSERT_EQ(fa_forward(op.op, &in_second.args), FA_OK) << fa_last_error();
  }
  for (const auto &[context, own] : {std::pair{first.handle, &in_first}, {second.handle, &in_second}}) {
    call("cuCtxPushCurrent_v2", context);
    EXPECT_EQ(own->failure(), "");
    CUcontext ignored = nullptr;
    call("cuCtxPopCurrent_v2", &ignored);
  }
  in_first.args.k = in_second.args.k;
  EXPECT_EQ(fa_forward(op.op, &in_first.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.k", "another CUDA context", "args.q"}), "");
}

TEST(Context, OneThatEndedIsAnErrorAndTheNextOneWorks) {
  const Op op(desc_of(small_case()));
  for (int round = 0; round < 3; ++round) {
    InContext in(0, InContext::own);
    fa_forward_args gone;
    {
      Call own(small_case());
      ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "");
      gone = own.args;
    }
    in.end();
    EXPECT_NE(fa_forward(op.op, &gone), FA_OK);
  }
}

/// Resets the primary context, which is current, and of no use to anybody until it is retained again.
void reset_primary() {
  ASSERT_EQ(call("cuDevicePrimaryCtxReset_v2", 0), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(call("cuMemAlloc_v2", &address, size_t{256}), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST(Context, AfterAResetOfThePrimaryOne) {
  Case large = split_case();  // with more shared memory than kernels have unasked
  large.q = FA_F16, large.d = 128, large.sq = 70;
  std::unique_ptr<Op> op, op_of_large;
  for (int round = 0; round < 3; ++round) {
    const InContext in;
    if (round == 0)
      op = std::make_unique<Op>(desc_of(split_case())), op_of_large = std::make_unique<Op>(desc_of(large));
    for (const bool is_large : {false, true}) {
      Call own(is_large ? large : split_case());
      ASSERT_EQ(fa_forward((is_large ? op_of_large : op)->op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "");
    }
    reset_primary();
  }
}

/// The library retains it, as NVIDIA's runtime does, where it has to work in it.
TEST(Context, AfterAResetTheCurrentOneIsRetainedAgain) {
  const InContext in;
  reset_primary();
  const Op op(desc_of(small_case()));
  ASSERT_EQ(op.status, FA_OK) << fa_last_error();
  EXPECT_EQ(contexts_depth(), reinterpret_cast<size_t>(in.handle));
  Call own(small_case());
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
}

TEST(Context, AfterAResetNewOpsShareOldModules) {
  Case f32 = split_case(), f16 = split_case();
  f16.q = FA_F16;
  for (const Case &c : {f32, f16}) {  // of two images, and one of the combine kernel
    const InContext in;
    const Op op(desc_of(c));
    {
      Call own(c);
      ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "");
    }
    reset_primary();
  }
}

// [F131]
TEST(Context, AFaultOfTheDeviceIsTheDriversError) {
  const InContext in(0, InContext::own);
  Call own(small_case());
  const Op op(desc_of(small_case()));
  own.args.k.stride[1] = int64_t{1} << 40;  // beyond all memory
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_OK);
  EXPECT_NE(call("cuCtxSynchronize"), CUDA_SUCCESS);
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_DRIVER);
  EXPECT_EQ(last_error_lacks({"CUDA_ERROR_ILLEGAL_ADDRESS"}), "");
}

/// Memory that tests share with the GPU is in the primary context, which a fault ends: it is there for the next test.
TEST(Context, TestsShareMemoryAfterAFault) {
  if (!is_emulated()) GTEST_SKIP() << "drivers may want a new process after a fault";
  reference::share_memory(true);
  for (const int64_t stride : {int64_t{1} << 40, int64_t{0}}) {
    const Instance instance(small_case());
    fa_forward_args args = instance.args;
    if (stride != 0) args.k.stride[1] = stride;  // beyond all memory
    const Op op(desc_of(small_case()));
    EXPECT_EQ(fa_forward(op.op, &args), FA_OK) << fa_last_error();
    EXPECT_EQ(reference::wait_for_gpu(), stride != 0 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "");
    if (stride != 0) continue;
    EXPECT_EQ(reference::compare(instance, reference::Expected(instance)), "");
  }
  reference::share_memory(false);
}

// [F110]
TEST(Streams, EveryHandle) {
  const InContext in;
  const Stream stream;
  const Op op(desc_of(split_case()));
  for (void *handle : {static_cast<void *>(nullptr), static_cast<void *>(CU_STREAM_LEGACY),
                       static_cast<void *>(CU_STREAM_PER_THREAD), static_cast<void *>(stream.handle)}) {
    Call own(split_case());
    own.args.stream = handle;
    ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
    EXPECT_EQ(own.failure(), "");
  }
}

TEST(Streams, OneOfAnotherContextIsNamed) {
  const InContext other(0, InContext::own);
  const Stream stream;
  const InContext in(0, InContext::own);
  const Op op(desc_of(small_case()));
  Call own(small_case());
  own.args.stream = stream.handle;
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.stream", "another CUDA context"}), "");
}

/// CUDA leaves undefined what a driver does with such a handle: NVIDIA's reads memory that it has freed.
TEST(Streams, OneThatWasDestroyedIsTheDriversError) {
  if (!is_emulated()) GTEST_SKIP() << needs_the_emulator;
  const InContext in;
  const Op op(desc_of(small_case()));
  Call own(small_case());
  own.args.stream = Stream().handle;
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_DRIVER);
  EXPECT_EQ(last_error_lacks({"cuStreamIsCapturing", "CUDA_ERROR_INVALID_HANDLE", "args.stream"}), "");
}

TEST(Streams, ManyThreadsOneOp) {
  const Op op(desc_of(split_case(), FA_DEVICE_AUTO));
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const InContext in(0, i % 2 ? InContext::own : InContext::primary);
      const Stream stream;
      for (int round = 0; round < 3; ++round) {
        Case c = round == i % 3 ? small_case() : split_case();
        c.seed = uint64_t(10 * i + round);
        Call own(c, round == 1 && i == 0 ? Where::host : Where::device);
        own.args.stream = stream.handle;
        failures += fa_forward(op.op, &own.args) != FA_OK || !own.failure().empty();
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(Streams, ManyThreadsCreate) {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 4; ++round) failures += Op(desc_of(small_case())).status != FA_OK;
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace cuda_test
