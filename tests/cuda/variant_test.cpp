// GPUs unlike the usual board: those that reach all memory of the host, MIG slices, those without memory pools, and
// those that are not usable now, while the CPU still is.
#include <cstdio>

#include "cuda/fixture.h"

namespace cuda_test {
namespace {

enum Outcome { fine, wrong, left_out };

int bad(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return wrong;
}

/// body() in a process with these devices of SM 80, which is fine.
template <class Body>
void on(const char *devices, Body body) {
  if (!is_emulated()) GTEST_SKIP() << needs_the_emulator;
  const int outcome = in_child({{"FA_EMU_DEVICE", devices}, {"FA_EMU_QUIET", "1"}}, [&] {
    if (!is_built("sm_80")) return int(left_out);
    const int status = body();
    return testing::Test::HasFailure() ? int(wrong) : status;
  });
  if (outcome == left_out) GTEST_SKIP() << "FA_ARCHS leaves out 80";
  EXPECT_EQ(outcome, fine) << devices;
}

/// "" when the call runs and its results are right.
std::string failure_of(const Op &op, Call *own) {
  return op.op == nullptr || fa_forward(op.op, &own->args) != FA_OK ? fa_last_error() : own->failure();
}

/// The same of a case with memory of the host, whose results are there as soon as the call returns.
std::string failure_on(const Op &op, const Case &c) {
  Call own(c, Where::host);
  return failure_of(op, &own);
}

bool says(const Log &log, const std::string &words) {
  return log.text.find(words) != std::string::npos;
}

constexpr const char *by_the_cpu = "forward: the tensors are in memory of the host: cpu.";

/// Whether the log's one call was the GPU's.
bool was_on_the_gpu(const Log &log) {
  return says(log, "call: cuda.") && !says(log, "forward:");
}

/// A caller who knows nothing of GPUs has no stream to wait for. Page faults would cost more than the CPU does, so an
/// auto op takes the GPU only where that uses the host's page tables.
// [F132]
TEST(Pageable, CallsWithTheHostsMemoryRunAndAreWaitedFor) {
  for (const char *device : {"sm_80:pageable", "sm_80:ats"})
    on(device, [device] {
      const bool by_tables = std::string(device) == "sm_80:ats";
      for (const fa_device asked : {FA_DEVICE_AUTO, FA_DEVICE_CUDA})
        for (const Case &c : {small_case(), split_case()}) {
          const Log log;
          const Op op(desc_of(c, asked));
          const std::string failure = failure_on(op, c);
          if (!failure.empty()) return bad(failure);
          if (op.kernel().rfind("cuda.", 0) != 0) return bad(op.kernel());
          if (was_on_the_gpu(log) != (by_tables || asked == FA_DEVICE_CUDA)) return bad(log.text);
        }
      return int(fine);
    });
}

TEST(Pageable, WithAStreamTheCallerWaits) {
  for (const char *variant : {"sm_80:pageable", "sm_80:ats"})
    on(variant, [] {
      const InContext in;
      const Stream stream;
      for (const fa_device device : {FA_DEVICE_AUTO, FA_DEVICE_CUDA}) {
        const Op op(desc_of(split_case(), device));
        Call own(split_case(), Where::host);
        own.args.stream = stream.handle;
        if (op.op == nullptr || fa_forward(op.op, &own.args) != FA_OK) return bad(fa_last_error());
        if (call("cuStreamSynchronize", stream.handle) != CUDA_SUCCESS) return bad("the stream");
        if (const std::string failure = own.failure(); !failure.empty()) return bad(failure);
      }
      return int(fine);
    });
}

/// With the GPU's own memory in a call, plain memory is read there by page faults rather than refused.
TEST(Pageable, AutoTakesTheGpuForItsOwnMemory) {
  on("sm_80:pageable", [] {
    const InContext in;
    for (const Where where : {Where::device, Where::managed}) {
      const Log log;
      const Op op(desc_of(small_case(), FA_DEVICE_AUTO));
      Call own(small_case(), where);
      own.args.q.data = own.instance.args.q.data;
      if (const std::string failure = failure_of(op, &own); !failure.empty()) return bad(failure);
      if (was_on_the_gpu(log) != (where == Where::device)) return bad(log.text);
    }
    return int(fine);
  });
}

/// Any of them with memory of the device, and a workspace of the host as well.
TEST(Pageable, AllPlacesMix) {
  on("sm_80:pageable", [] {
    const InContext in;
    for (const fa_device device : {FA_DEVICE_AUTO, FA_DEVICE_CUDA})
      for (const Where where : {Where::device, Where::managed, Where::pinned}) {
        const Op op(desc_of(split_case(), device));
        Call own(split_case(), where);
        own.args.q.data = own.instance.args.q.data;
        own.args.v.data = own.instance.args.v.data;
        if (op.op == nullptr || fa_forward_workspace_size(op.op, &own.args, &own.args.workspace_size) != FA_OK)
          return bad(fa_last_error());
        const reference::GuardedMemory memory((own.args.workspace_size + 255) / 256 * 256, reference::Guard::start);
        own.args.workspace = memory.data();
        if (const std::string failure = failure_of(op, &own); !failure.empty()) return bad(failure);
      }
    return int(fine);
  });
}

// [F136]
TEST(Pools, WithoutThemAWorkspaceIsAskedFor) {
  on("sm_80:nopools", [] {
    const InContext in;
    const Op op(desc_of(split_case()));
    Call own(split_case());
    if (fa_forward(op.op, &own.args) != FA_ERROR_UNSUPPORTED) return bad("it ran");
    if (const std::string lacks = last_error_lacks({"args.workspace is NULL", "device 0", "fa_forward_workspace_size"});
        !lacks.empty())
      return bad(lacks);
    if (fa_forward_workspace_size(op.op, &own.args, &own.args.workspace_size) != FA_OK) return bad(fa_last_error());
    CUdeviceptr workspace = 0;
    if (call("cuMemAlloc_v2", &workspace, own.args.workspace_size) != CUDA_SUCCESS) return bad("no workspace");
    own.args.workspace = reinterpret_cast<void *>(workspace);
    if (const std::string failure = failure_of(op, &own); !failure.empty()) return bad(failure);
    Call without(small_case());  // needs none
    if (fa_forward(op.op, &without.args) != FA_OK) return bad(fa_last_error());
    const std::string failure = without.failure();
    return failure.empty() ? int(fine) : bad(failure);
  });
}

/// Decode of one sequence: as many splits as fill the device.
TEST(Slices, SplitsFollowTheirMultiprocessors) {
  on("sm_80,sm_80:sms=14:memory=64M", [] {
    Case c;
    c.b = 1, c.sq = 1, c.sk = 3000, c.hq = 4, c.hkv = 2, c.d = 16;
    size_t bytes[2] = {};
    for (const int device : {0, 1}) {
      const InContext in(device);
      const Op op(desc_of(c, FA_DEVICE_CUDA, device));
      Call own(c);
      if (op.op == nullptr || fa_forward_workspace_size(op.op, &own.args, &bytes[device]) != FA_OK)
        return bad(fa_last_error());
      CUdeviceptr workspace = 0;
      if (call("cuMemAlloc_v2", &workspace, bytes[device]) != CUDA_SUCCESS) return bad("no workspace");
      own.args.workspace = reinterpret_cast<void *>(workspace);
      own.args.workspace_size = bytes[device];
      if (const std::string failure = failure_of(op, &own); !failure.empty()) return bad(failure);
    }
    return bytes[1] > 0 && bytes[1] < bytes[0] ? int(fine)
                                               : bad(std::to_string(bytes[0]) + ", " + std::to_string(bytes[1]));
  });
}

/// Where the L2 holds no head's keys, blocks come in groups, and the shortest last: not a bit of their results
/// changes.
TEST(Slices, SmallCachesChangeNoBit) {
  on("sm_80:sms=2,sm_80:sms=2:l2=4K", [] {
    Case prefill, packed, split;
    prefill.b = 1, prefill.sq = prefill.sk = 1100, prefill.hq = 4, prefill.hkv = 2, prefill.d = 16;
    prefill.q = FA_F16, prefill.mask = FA_MASK_CAUSAL;
    packed = split = prefill;
    packed.cu_q = packed.cu_k = true, packed.b = 3;
    split.splits = 3;
    for (const Case &c : {prefill, packed, split}) {
      std::vector<char> results[2];
      for (const int device : {0, 1}) {
        const InContext in(device);
        const Op op(desc_of(c, FA_DEVICE_CUDA, device));
        Call own(c);
        if (const std::string failure = failure_of(op, &own); !failure.empty()) return bad(failure);
        results[device] = own.instance.out.bytes();
      }
      if (results[0] != results[1]) return bad("other bits");
    }
    return int(fine);
  });
}

/// Kernels whose blocks do not fit are passed over, with the numbers.
TEST(Slices, SharedMemoryDecidesTheKernel) {
  on("sm_80:shared=48K", [] {
    Case c = small_case();
    c.q = FA_F16;
    c.d = 128;
    const Log log;
    const Op op(desc_of(c));
    const std::string text = op.op != nullptr ? log.text : std::string(fa_last_error());
    if (text.find("bytes of shared memory, and device 0") == std::string::npos) return bad(text);
    if (op.kernel() == "cuda.sm_80.mma") return bad(op.kernel());
    if (op.op == nullptr) return int(fine);
    const InContext in;
    Call own(c);
    if (fa_forward(op.op, &own.args) != FA_OK) return bad(fa_last_error());
    const std::string failure = own.failure();
    return failure.empty() ? int(fine) : bad(failure);
  });
}

/// Every pointer of a call has to be moved to where the device sees it.
TEST(Apart, RegisteredMemoryIsReadWhereTheDeviceSeesIt) {
  on("sm_80:apart", [] {
    const InContext in;
    Case all = split_case(), paged = split_case(), packed = split_case();
    all.used_q = all.used_k = all.leftpad = all.batch_idx = all.offset = true;
    all.bias = "f32:hk", all.boolmask = "k", all.sinks = all.alibi = "h";
    paged.page = 16, paged.used_k = true;
    packed.cu_q = packed.cu_k = true;
    for (const Case &c : {all, paged, packed})
      for (const fa_device device : {FA_DEVICE_AUTO, FA_DEVICE_CUDA}) {
        const Op op(desc_of(c, device));
        Call own(c, Where::registered);
        if (op.op == nullptr || fa_forward_workspace_size(op.op, &own.args, &own.args.workspace_size) != FA_OK)
          return bad(fa_last_error());
        own.args.workspace = own.place(own.args.workspace_size, Where::registered);
        CUdeviceptr seen = 0;
        if (call("cuMemHostGetDevicePointer_v2", &seen, own.args.q.data, 0u) != CUDA_SUCCESS ||
            seen == reinterpret_cast<CUdeviceptr>(own.args.q.data))
          return bad("the device sees it where the host does");
        if (const std::string failure = failure_of(op, &own); !failure.empty()) return bad(failure);
      }
    return int(fine);
  });
}

TEST(Unready, AnOpForCudaSaysWhy) {
  on("sm_80:busy", [] {
    const Op op(desc_of(small_case()));
    if (op.status != FA_ERROR_DRIVER) return bad(fa_status_string(op.status));
    const std::string lacks =
        last_error_lacks({"cuDevicePrimaryCtxRetain", "CUDA_ERROR_DEVICE_UNAVAILABLE", "device 0"});
    return lacks.empty() ? int(fine) : bad(lacks);
  });
}

/// Its memory is full once it is created; kernels of another context are to be loaded then.
TEST(Unready, AnOpForCudaLeavesNothingToTheCpu) {
  on("sm_80:pageable:memory=1M", [] {
    const Op op(desc_of(small_case()));
    if (op.status != FA_OK) return bad(fa_last_error());
    const InContext in(0, InContext::own);
    CUdeviceptr others = 0;
    size_t left = 0, all = 0;
    if (call("cuMemGetInfo_v2", &left, &all) != CUDA_SUCCESS) return bad("cuMemGetInfo");
    if (call("cuMemAlloc_v2", &others, left) != CUDA_SUCCESS) return bad("the device's memory");
    Call own(small_case(), Where::host);
    if (fa_forward(op.op, &own.args) != FA_ERROR_OUT_OF_MEMORY) return bad("it ran");
    const std::string lacks = last_error_lacks({"CUDA_ERROR_OUT_OF_MEMORY", "sm_80"});
    return lacks.empty() ? int(fine) : bad(lacks);
  });
}

// [F123]
TEST(Unready, AutoRunsTheHostsMemoryOnTheCpuAndSaysSo) {
  for (const char *device : {"sm_80:busy", "sm_80:busy:pageable"})
    on(device, [] {
      const Log log;
      const Op op(desc_of(small_case(), FA_DEVICE_AUTO));
      if (op.kernel().rfind("cuda.", 0) != 0) return bad(op.kernel() + fa_last_error());
      if (!says(log, "is not ready") || !says(log, "CUDA_ERROR_DEVICE_UNAVAILABLE")) return bad(log.text);
      if (const std::string failure = failure_on(op, small_case()); !failure.empty()) return bad(failure);
      if (!says(log, by_the_cpu)) return bad(log.text);
      return *fa_last_error() == '\0' ? int(fine) : bad(fa_last_error());  // nothing that was called has failed
    });
}

/// Calls with the GPU's own memory never run elsewhere: they fail until there is room again.
// [F124]
TEST(Unready, CallsOnTheGpuTryAgain) {
  on("sm_80:memory=1M", [] {
    const InContext in;
    CUdeviceptr others = 0;
    if (call("cuMemAlloc_v2", &others, size_t{1} << 20) != CUDA_SUCCESS) return bad("the device's memory");
    const Op op(desc_of(small_case(), FA_DEVICE_AUTO));
    if (op.status != FA_OK) return bad(fa_last_error());
    Call own(small_case(), Where::pinned);
    if (fa_forward(op.op, &own.args) != FA_ERROR_OUT_OF_MEMORY) return bad(fa_last_error());
    if (const std::string lacks = last_error_lacks({"CUDA_ERROR_OUT_OF_MEMORY", "sm_80"}); !lacks.empty())
      return bad(lacks);
    if (const std::string failure = failure_on(op, small_case()); !failure.empty()) return bad(failure);
    call("cuMemFree_v2", others);
    if (fa_forward(op.op, &own.args) != FA_OK) return bad(fa_last_error());
    const std::string failure = own.failure();
    return failure.empty() ? int(fine) : bad(failure);
  });
}

}  // namespace
}  // namespace cuda_test
