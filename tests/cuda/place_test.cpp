// The memory of the tensors decides the engine of a call; every mixture that no engine supports is an error with a
// name.
#include <thread>

#include "cuda/fixture.h"
#include "reference/compare_gradients.h"
#include "reference/gpu.h"

namespace cuda_test {
namespace {

/// On hardware the device may reach all memory of the host: variant_test.cpp has the tests for that.
bool reaches_the_host() {
  constexpr int pageable_memory_access = 88;
  int value = 0;
  EXPECT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  EXPECT_EQ(call("cuDeviceGetAttribute", &value, pageable_memory_access, 0), CUDA_SUCCESS);
  return value != 0;
}

TEST(Place, MemoryThatTheDeviceReachesIsServedThere) {
  const InContext in;
  for (const Where where : {Where::device, Where::managed, Where::pinned}) {
    for (const Case &c : {small_case(), split_case()}) {
      Call own(c, where);
      const Op op(desc_of(c));
      ASSERT_EQ(op.status, FA_OK) << fa_last_error();
      EXPECT_EQ(op.kernel().rfind("cuda.", 0), 0u) << op.kernel();
      ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "");
    }
  }
}

// [F76]
TEST(Place, AutoRunsEachCallWhereItsTensorsLive) {
  if (reaches_the_host()) GTEST_SKIP() << "the device reaches all memory of the host";
  const InContext in;
  const Op op(desc_of(small_case(), FA_DEVICE_AUTO));
  ASSERT_EQ(op.status, FA_OK) << fa_last_error();
  EXPECT_EQ(op.kernel().rfind("cuda.", 0), 0u) << op.kernel();
  const Log log;
  for (const Where where : {Where::host, Where::device, Where::host, Where::managed}) {
    Call own(small_case(), where);
    ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
    EXPECT_EQ(own.failure(), "");
  }
  const std::string said = "forward: the tensors are in memory of the host: cpu.";
  EXPECT_NE(log.text.find(said), std::string::npos) << log.text;
  EXPECT_NE(log.text.find(said), log.text.rfind(said)) << "twice\n" << log.text;
}

TEST(Place, AutosWorkspaceDoesForBothPlaces) {
  const InContext in;
  const Case c = split_case();
  const Op op(desc_of(c, FA_DEVICE_AUTO)), cpu(desc_of(c, FA_DEVICE_CPU)), gpu(desc_of(c, FA_DEVICE_CUDA));
  const Instance instance(c);
  size_t both = 0, on_cpu = 0, on_gpu = 0;
  ASSERT_EQ(fa_forward_workspace_size(op.op, &instance.args, &both), FA_OK);
  ASSERT_EQ(fa_forward_workspace_size(cpu.op, &instance.args, &on_cpu), FA_OK);
  ASSERT_EQ(fa_forward_workspace_size(gpu.op, &instance.args, &on_gpu), FA_OK);
  EXPECT_EQ(both, std::max(on_cpu, on_gpu));
  EXPECT_GT(on_gpu, 0u);
}

/// Gradients are computed where the tensors are.
// [F184]
TEST(Place, BackwardFollowsItsMemory) {
  if (reaches_the_host()) GTEST_SKIP() << "the device reaches all memory of the host";
  const InContext in;
  Case c = small_case();
  c.backward = true;
  const reference::BackwardInstance host(c);
  const Op gpu(desc_of(c)), either(desc_of(c, FA_DEVICE_AUTO)), cpu(desc_of(c, FA_DEVICE_CPU));
  size_t on_gpu = 0, on_cpu = 0, bytes = 0;
  EXPECT_EQ(fa_backward_workspace_size(gpu.op, &host.call, &on_gpu), FA_OK) << fa_last_error();
  EXPECT_EQ(fa_backward_workspace_size(cpu.op, &host.call, &on_cpu), FA_OK) << fa_last_error();
  EXPECT_EQ(fa_backward_workspace_size(either.op, &host.call, &bytes), FA_OK) << fa_last_error();
  EXPECT_EQ(bytes, std::max(on_cpu, on_gpu));
  EXPECT_EQ(fa_backward(gpu.op, &host.call), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.q", "host", "device 0", "cuMemHostRegister", "FA_DEVICE_AUTO"}), "");
  {
    const Log log;
    EXPECT_EQ(fa_backward(either.op, &host.call), FA_OK) << fa_last_error();
    EXPECT_NE(log.text.find("memory of the host: cpu."), std::string::npos) << log.text;
  }
  EXPECT_EQ(compare(host, reference::ExpectedGradients(host)), "");

  reference::share_memory(true);
  for (const Op *op : {&gpu, &either}) {
    const reference::BackwardInstance shared(c);
    const Log log;
    EXPECT_EQ(fa_backward(op->op, &shared.call), FA_OK) << fa_last_error();
    EXPECT_NE(log.text.find("backward: cuda.sm_"), std::string::npos) << log.text;
    EXPECT_EQ(reference::wait_for_gpu(), "");
    EXPECT_EQ(compare(shared, reference::ExpectedGradients(shared)), "");
  }
  reference::share_memory(false);

  Call own(small_case());
  fa_backward_args call = host.call;
  call.q = own.args.q;
  EXPECT_EQ(fa_backward(either.op, &call), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.k is", "host", "args.q is memory of the device"}), "");
}

TEST(Place, HostMemoryWithDeviceCudaIsNamed) {
  if (reaches_the_host()) GTEST_SKIP() << "the device reaches all memory of the host";
  const InContext in;
  const Op op(desc_of(small_case()));
  Call own(small_case(), Where::host);
  own.instance.clear_outputs();
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.q", "host", "device 0", "cuMemHostRegister", "FA_DEVICE_AUTO"}), "");
  const std::vector<char> none(size_t(own.instance.out.shape()[0] * own.instance.out.shape()[1]), 0);
  EXPECT_EQ(own.instance.out.untouched_outside(none), "");
}

/// A kernel that is forced by name is taken even where better ones exist, and nothing replaces it.
TEST(Place, AForcedKernelIsTheOnlyOne) {
  EXPECT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  const std::string name = emulated::capability() < 80 ? "cuda.sm_75.simt" : "cuda.sm_80.simt";
  if (!is_built(name)) GTEST_SKIP() << "FA_ARCHS leaves out " << name;
  Case c = small_case();
  c.q = FA_F16;
  const InContext in;
  EXPECT_NE(Op(desc_of(c, FA_DEVICE_AUTO)).kernel(), name);
  setenv("FA_FORCE_KERNEL", name.c_str(), 1);
  const Op forced(desc_of(c, FA_DEVICE_AUTO));
  setenv("FA_FORCE_KERNEL", "cpu.generic", 1);
  const Op on_cpu(desc_of(c, FA_DEVICE_AUTO));
  unsetenv("FA_FORCE_KERNEL");
  EXPECT_EQ(forced.kernel(), name);
  EXPECT_EQ(on_cpu.kernel(), "cpu.generic");
  Call own(c);
  ASSERT_EQ(fa_forward(forced.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
  Call host(c, Where::host);
  ASSERT_EQ(fa_forward(on_cpu.op, &host.args), FA_OK) << fa_last_error();
  EXPECT_EQ(host.failure(), "");
  if (reaches_the_host()) return;
  EXPECT_EQ(fa_forward(forced.op, &host.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.q", "host", "device 0"}), "");
}

TEST(Place, MixedPlacesAreNamed) {
  if (reaches_the_host()) GTEST_SKIP() << "the device reaches all memory of the host";
  const InContext in;
  Case c = small_case();
  c.used_k = true, c.sinks = "h", c.alibi = "h", c.bias = "f32:hk", c.boolmask = "k", c.leftpad = c.offset = true;
  for (const fa_device device : {FA_DEVICE_AUTO, FA_DEVICE_CUDA}) {
    const Op op(desc_of(c, device));
    const Instance host(c);
    const struct {
      const char *name;
      void (*change)(fa_forward_args *, const Instance &);
    } mixtures[] = {
        {"args.q", [](fa_forward_args *a, const Instance &h) { a->q.data = h.args.q.data; }},
        {"args.k", [](fa_forward_args *a, const Instance &h) { a->k.data = h.args.k.data; }},
        {"args.v", [](fa_forward_args *a, const Instance &h) { a->v.data = h.args.v.data; }},
        {"args.out", [](fa_forward_args *a, const Instance &h) { a->out.data = h.args.out.data; }},
        {"args.lse", [](fa_forward_args *a, const Instance &h) { a->lse.data = h.args.lse.data; }},
        {"args.bias", [](fa_forward_args *a, const Instance &h) { a->bias.data = h.args.bias.data; }},
        {"args.mask", [](fa_forward_args *a, const Instance &h) { a->mask.data = h.args.mask.data; }},
        {"args.sinks", [](fa_forward_args *a, const Instance &h) { a->sinks.data = h.args.sinks.data; }},
        {"args.alibi_slopes",
         [](fa_forward_args *a, const Instance &h) { a->alibi_slopes.data = h.args.alibi_slopes.data; }},
        {"args.seqused_k", [](fa_forward_args *a, const Instance &h) { a->seqused_k = h.args.seqused_k; }},
        {"args.leftpad_k", [](fa_forward_args *a, const Instance &h) { a->leftpad_k = h.args.leftpad_k; }},
        {"args.q_offset", [](fa_forward_args *a, const Instance &h) { a->q_offset = h.args.q_offset; }},
    };
    for (const auto &mixture : mixtures) {
      Call own(c);
      mixture.change(&own.args, host);
      EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_INVALID_ARGUMENT) << mixture.name;
      EXPECT_EQ(last_error_lacks({std::string(mixture.name) + " is", "host", "one place"}), "");
    }
  }
}

TEST(Place, AWorkspaceOfTheHostIsNamed) {
  if (reaches_the_host()) GTEST_SKIP() << "the device reaches all memory of the host";
  const InContext in;
  const Case c = split_case();
  const Op op(desc_of(c));
  Call own(c);
  ASSERT_EQ(fa_forward_workspace_size(op.op, &own.args, &own.args.workspace_size), FA_OK);
  const reference::GuardedMemory memory((own.args.workspace_size + 255) / 256 * 256, reference::Guard::start);
  own.args.workspace = memory.data();
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.workspace", "host"}), "");
}

/// A pointer to memory that was freed is not taken for memory of the host, which an auto op would read.
TEST(Place, MemoryThatNobodyHasIsNamed) {
  const InContext in;
  const reference::GuardedMemory gone(4096, reference::Guard::end);
  char *const nobodys = gone.data() + 4096;  // a page without access
  Case c = small_case();
  c.used_k = true, c.sinks = "h";
  for (const fa_device device : {FA_DEVICE_AUTO, FA_DEVICE_CUDA}) {
    const Op op(desc_of(c, device));
    for (const Where where : {Where::host, Where::device}) {
      const auto expect_named = [&](const char *name, auto set) {
        Call own(c, where);
        set(&own.args);
        EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_INVALID_ARGUMENT) << name;
        EXPECT_EQ(last_error_lacks({std::string(name) + " is", "neither memory of a device nor of the host", "freed"}),
                  "");
      };
      expect_named("args.q", [=](fa_forward_args *a) { a->q.data = nobodys; });
      expect_named("args.out", [=](fa_forward_args *a) { a->out.data = nobodys; });
      expect_named("args.sinks", [=](fa_forward_args *a) { a->sinks.data = nobodys; });
      expect_named("args.seqused_k",
                   [=](fa_forward_args *a) { a->seqused_k = reinterpret_cast<const int32_t *>(nobodys); });
    }
  }
}

/// A workspace of no bytes is nowhere.
TEST(Place, AnEmptyWorkspaceIsNotLookedAt) {
  const InContext in;
  const Op op(desc_of(small_case()));  // needs none
  Call own(small_case());
  own.args.workspace = reinterpret_cast<void *>(uintptr_t{256});  // an empty array's, in some languages
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
}

TEST(Place, MemoryOfAnotherDeviceIsNamed) {
  if (device_count() < 2) GTEST_SKIP() << "there is one GPU";
  const InContext in(1);
  Call own(small_case());
  const Op op(desc_of(small_case(), FA_DEVICE_CUDA, 0));
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.q", "device 1", "device 0", "desc.device_index"}), "");
}

// [F86]
TEST(Place, TwoDevicesInOneProcess) {
  if (device_count() < 2) GTEST_SKIP() << "there is one GPU";
  for (const int device : {0, 1, 0, 1}) {
    const InContext in(device);
    for (const Case &c : {small_case(), split_case()}) {
      Call own(c);
      const Op op(desc_of(c, FA_DEVICE_AUTO, device));
      ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "") << "on device " << device << ", " << op.kernel();
    }
  }
}

// [F71]
TEST(Place, ADeviceThatIsNotThere) {
  const int count = device_count();
  const Op op(desc_of(small_case(), FA_DEVICE_CUDA, count + 5));
  EXPECT_EQ(op.status, FA_ERROR_NO_DEVICE);
  const std::string found = count == 1 ? "there is 1 GPU," : "there are " + std::to_string(count) + " GPUs,";
  EXPECT_EQ(last_error_lacks({"desc.device_index is " + std::to_string(count + 5), found}), "");
  const Op on_cpu(desc_of(small_case(), FA_DEVICE_AUTO, count + 5));
  EXPECT_EQ(on_cpu.status, FA_OK);
  EXPECT_EQ(on_cpu.kernel().rfind("cpu.", 0), 0u);
}

// ---- FA_FLAG_DEVICE_POINTERS

fa_desc promised(const Case &c, int32_t index = 0) {
  fa_desc desc = desc_of(c, FA_DEVICE_CUDA, index);
  desc.flags |= FA_FLAG_DEVICE_POINTERS;
  return desc;
}

// [F318]
TEST(Promise, TheCallIsInTheCurrentContextOrThePrimaryOne) {
  const Op small(promised(small_case())), split(promised(split_case()));
  ASSERT_EQ(small.status, FA_OK) << fa_last_error();
  const auto run = [&] {
    for (const bool splits : {false, true}) {
      Call own(splits ? split_case() : small_case());
      const Stream stream;
      own.args.stream = stream.handle;
      ASSERT_EQ(fa_forward((splits ? split : small).op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "");
    }
  };
  for (int round = 0; round < 2; ++round) {
    const InContext in(0, InContext::own);
    run();
    const InContext second(0, InContext::own);
    run();
  }
  {
    const InContext in;
    run();
  }
  const InContext retained;
  Call own(small_case());
  const auto run_in = [&](CUcontext current) {  // a thread that has no context yet
    own.instance.clear_outputs();
    own.update(own.instance.out);
    std::thread([&] {
      if (current != nullptr) {
        EXPECT_EQ(call("cuCtxPushCurrent_v2", current), CUDA_SUCCESS);
      }
      EXPECT_EQ(fa_forward(small.op, &own.args), FA_OK) << fa_last_error();
      CUcontext left = nullptr;
      EXPECT_EQ(call("cuCtxGetCurrent", &left), CUDA_SUCCESS);
      EXPECT_EQ(left, current);
    }).join();
    EXPECT_EQ(own.failure(), "");
  };
  run_in(nullptr);
  if (device_count() < 2) return;
  CUcontext of_another_device = nullptr;
  {
    const InContext other(1);
    of_another_device = other.handle;
    call("cuDevicePrimaryCtxRetain", &of_another_device, 1);
  }
  run_in(of_another_device);
  call("cuDevicePrimaryCtxRelease_v2", 1);
}

// [F318]
TEST(Promise, OfAnyMemoryThatTheDeviceMayUse) {
  const InContext in;
  for (const Where where : {Where::device, Where::managed, Where::pinned}) {
    Call own(split_case(), where);
    const Op op(promised(split_case()));
    ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
    EXPECT_EQ(own.failure(), "");
  }
}

// [F318]
TEST(Promise, OnEachDevice) {
  if (device_count() < 2) GTEST_SKIP() << "there is one GPU";
  const Op ops[] = {Op(promised(small_case(), 0)), Op(promised(small_case(), 1))};
  for (const int device : {0, 1, 1, 0}) {
    const InContext in(device);
    Call own(small_case());
    ASSERT_EQ(fa_forward(ops[device].op, &own.args), FA_OK) << fa_last_error();
    EXPECT_EQ(own.failure(), "") << "on device " << device;
  }
}

// [F319]
TEST(Promise, ResultsAreThoseWithoutIt) {
  const InContext in;
  for (const Case &c : {small_case(), split_case()}) {
    std::vector<char> bytes[2];
    for (const bool promise : {false, true}) {
      Call own(c);
      const Op op(promise ? promised(c) : desc_of(c));
      ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
      EXPECT_EQ(own.failure(), "");
      bytes[promise] = own.instance.out.bytes();
    }
    EXPECT_EQ(bytes[0], bytes[1]);
  }
}

/// A stream of another context than the current one is refused as ever.
TEST(Promise, TheStreamIsLookedAt) {
  const InContext first(0, InContext::own);
  const Stream stream;
  const InContext second(0, InContext::own);
  const Op op(promised(small_case()));
  Call own(small_case());
  own.args.stream = stream.handle;
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.stream", "another CUDA context"}), "");
}

}  // namespace
}  // namespace cuda_test
