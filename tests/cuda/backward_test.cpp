// fa_backward on a GPU: in graphs, whatever fails beneath it, and which kernels a call takes. Tensors are the host's,
// which the GPU reaches at the same addresses.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "cuda/child.h"
#include "cuda/graph.h"
#include "reference/compare_gradients.h"
#include "reference/gpu.h"

namespace cuda_test {
namespace {

using reference::BackwardInstance;

/// Every kernel that computes one gradient has something to do.
Case whole_case() {
  Case c = small_case();
  c.backward = true;
  c.d = 16, c.mask = FA_MASK_CAUSAL, c.bias = "f32:k", c.dbias = "k", c.sinks = c.dsinks = "h", c.used_k = true;
  return c;
}

/// Several blocks of keys, and steps enough for a fixed order to pay on every architecture. dq has all bits of its
/// sums.
Case turns_case() {
  Case c;
  c.backward = true;
  c.sq = 200, c.sk = 400, c.hq = 8, c.d = 32, c.q = FA_F16, c.dq = FA_F32, c.used_k = true;
  c.dout_amp = 256, c.dout_fall = 12;
  c.seed = 3;  // more than half of the keys are used
  return c;
}

/// The same with two blocks of keys, on SM 80: for tests that run it hundreds of times.
Case short_turns_case() {
  Case c = turns_case();
  c.sq = 40, c.sk = 200, c.hq = 4;
  return c;
}

/// A way in which gradients are computed.
struct Way {
  const char *name;
  Case c;
  const char *said;  // of it in the log
  size_t kernels;    // of the call
};

/// Each gradient by a separate kernel, or dq, dk and dv in one loop. Ops of the latter have an image more.
std::vector<Way> both_ways(const Case &fixed_order) {
  return {
      {"apart", whole_case(), "fa_backward_dkv", 5},  // delta, dsinks, dk and dv, dq, dbias
      {"in a fixed order", fixed_order, "fa_backward_fused in a fixed order", 3}};  // delta, dq, dk and dv, sums of dq
}

/// Memory of the tests is shared with the GPU for as long as one lives.
struct Shared {
  Shared() { reference::share_memory(true); }
  ~Shared() { reference::share_memory(false); }
  Shared(const Shared &) = delete;
  Shared &operator=(const Shared &) = delete;
};

/// A call's own workspace of the size that it asks for, flush with an inaccessible page.
class Workspace {
 public:
  Workspace(const Op &op, fa_backward_args *call) {
    EXPECT_EQ(fa_backward_workspace_size(op.op, call, &call->workspace_size), FA_OK) << fa_last_error();
    EXPECT_GT(call->workspace_size, 0u);
    EXPECT_EQ(call->workspace_size % 256, 0u) << "the workspace cannot be aligned and end with a page";
    memory_ = reference::GuardedMemory(call->workspace_size, reference::Guard::end);
    call->workspace = memory_.data();
  }

  void fill(int32_t word) const {
    for (size_t at = 0; at + sizeof word <= memory_.size(); at += sizeof word)
      std::memcpy(memory_.data() + at, &word, sizeof word);
  }

 private:
  reference::GuardedMemory memory_;
};

/// Contents of a workspace before a call: as sums NaN, as counters the number of a block that has not come.
constexpr int32_t garbage[] = {-1, 1, 2};

/// Kernels are loaded by the first call, outside a capture; graphs then follow the contents of arrays, and nothing that
/// the workspace holds. The first test of its process that has any.
// [F193]
TEST(Gradients, AreCapturedOnceTheirKernelsAreLoaded) {
  const InContext in;
  const Shared shared;
  const Stream stream;
  for (const Way &way : both_ways(turns_case())) {
    SCOPED_TRACE(way.name);
    BackwardInstance instance(way.c);
    ASSERT_GT(instance.seqused_k[0], way.c.sk / 2) << "too few blocks have keys";
    instance.call.stream = stream.handle;
    const Op op(desc_of(way.c));
    const Workspace workspace(op, &instance.call);
    {
      const Graph graph(op, instance.call);
      EXPECT_EQ(graph.status, FA_ERROR_UNSUPPORTED);
      EXPECT_EQ(last_error_lacks({"args.stream", "captured", "run it there once"}), "");
    }
    const Log log;
    ASSERT_EQ(fa_backward(op.op, &instance.call), FA_OK) << fa_last_error();
    EXPECT_TRUE(log.has(way.said)) << log.text;
    EXPECT_EQ(reference::wait_for_gpu(), "");
    const Graph graph(op, instance.call);
    ASSERT_EQ(graph.status, FA_OK) << fa_last_error();
    EXPECT_EQ(graph.nodes, way.kernels);
    for (const int32_t fewer : {0, 3, 130}) {
      instance.seqused_k[0] = std::max(instance.seqused_k[0] - fewer, 0);
      const reference::ExpectedGradients expected(instance);
      std::vector<char> first;
      for (const int32_t word : garbage) {
        workspace.fill(word);
        instance.clear_gradients();
        ASSERT_EQ(graph.launch(stream.handle), CUDA_SUCCESS);
        EXPECT_EQ(reference::wait_for_gpu(), "");
        EXPECT_EQ(compare(instance, expected), "") << fewer << " keys fewer, after words of " << word;
        if (first.empty()) first = instance.gradient_bits();
        EXPECT_TRUE(instance.gradient_bits() == first) << fewer << " keys fewer, after words of " << word;
      }
    }
  }
}

/// A gradient that is not asked for has no kernel; one that a better kernel does not support says why, as do two
/// passes.
// [F175]
TEST(Gradients, TakeTheKernelsThatTheyNeed) {
  const InContext in;
  const Shared shared;
  struct Wanted {
    const char *grads;
    std::vector<const char *> kernels, others;
  };
  const Wanted all[] = {
      {"q", {"fa_backward_delta", "fa_backward_dq"}, {"fa_backward_dkv", "dbias", "dsinks", "passes"}},
      {"v", {"fa_backward_delta", "fa_backward_dkv"}, {"fa_backward_dq", "dbias", "dsinks", "passes"}},
      {"qv", {"fa_backward_dq; in two passes: a gradient that is not asked for\n"}, {}},
      {"qkv", {"fa_backward_dq; in two passes: q, k and v are not of one 16-bit type\n"}, {}}};
  for (const Wanted &wanted : all) {
    Case c = small_case();
    c.backward = true, c.grads = wanted.grads;
    const BackwardInstance instance(c);
    const Op op(desc_of(c));
    const Log log;
    ASSERT_EQ(fa_backward(op.op, &instance.call), FA_OK) << fa_last_error();
    EXPECT_EQ(reference::wait_for_gpu(), "");
    for (const char *name : wanted.kernels) EXPECT_NE(log.text.find(name), std::string::npos) << log.text;
    for (const char *name : wanted.others) EXPECT_EQ(log.text.find(name), std::string::npos) << log.text;
  }
}

/// A workspace of the size that was asked for is enough, one of a byte less is refused.
// [F188] [F192]
TEST(Gradients, TheWorkspaceIsEnoughAndNoSmaller) {
  const InContext in;
  const Shared shared;
  for (const Way &way : both_ways(turns_case())) {
    SCOPED_TRACE(way.name);
    Case c = way.c;
    c.sq = 256;  // as many rows as there is workspace for: no part of it is without use
    const BackwardInstance instance(c);
    const Op op(desc_of(c));
    fa_backward_args call = instance.call;
    const Workspace workspace(op, &call);
    const reference::ExpectedGradients expected(instance);
    for (const int32_t word : garbage) {
      workspace.fill(word);
      instance.clear_gradients();
      const Log log;
      ASSERT_EQ(fa_backward(op.op, &call), FA_OK) << fa_last_error();
      EXPECT_TRUE(log.has(way.said)) << log.text;
      EXPECT_EQ(reference::wait_for_gpu(), "");
      EXPECT_EQ(compare(instance, expected), "") << "after words of " << word;
    }
    instance.clear_gradients();
    const std::vector<char> before = instance.gradient_bits();
    --call.workspace_size;
    EXPECT_EQ(fa_backward(op.op, &call), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(last_error_lacks({"workspace_size", "fa_backward_workspace_size"}), "");
    EXPECT_EQ(reference::wait_for_gpu(), "");
    EXPECT_TRUE(instance.gradient_bits() == before);
  }
}

/// Runs a call, twice if the first time fails, as only one call of the driver does.
int run_with_one_failure(const Way &way, const reference::ExpectedGradients &expected) {
  if (std::freopen("/dev/null", "w", stdout) == nullptr) return not_ours;
  bool failed = false;
  const auto judge = [&](fa_status status) -> int {
    if (status == FA_OK) return fine;
    const std::string text = fa_last_error();
    if (text.find("failed: CUDA_ERROR_UNKNOWN") == std::string::npos &&
        text.find("cuGetErrorName") == std::string::npos)
      return bad("\"" + text + "\"");
    if (failed) return bad("fails again: " + text);
    failed = true;
    return reported;
  };
  try {
    const Shared shared;
    const BackwardInstance instance(way.c);
    const Log log;
    Op first(desc_of(way.c));
    if (first.status != FA_OK) return not_ours;  // fault_test.cpp has it
    fa_status status = fa_backward(first.op, &instance.call);
    if (const int outcome = judge(status)) {
      if (outcome == wrong) return wrong;
      instance.clear_gradients();
      if ((status = fa_backward(first.op, &instance.call)) != FA_OK) return judge(status);
    }
    const std::string waiting = reference::wait_for_gpu();
    if (waiting == "CUDA_ERROR_UNKNOWN" && !failed) return not_ours;
    if (!waiting.empty()) return bad(waiting);
    if (!log.has(way.said)) return bad(log.text);
    const std::string failure = compare(instance, expected);
    if (!failure.empty()) return bad(failure);
  } catch (const std::exception &) {
    return failed ? wrong : not_ours;
  }
  if (failed) return reported;
  int version = 0;
  for (int i = 0; i < 1000; ++i)
    if (call("cuDriverGetVersion", &version) != CUDA_SUCCESS) return over;
  return fine;
}

/// Takes all of the device's memory but some bytes.
class Taken {
 public:
  explicit Taken(size_t left) {
    CUdeviceptr kept = 0;
    if (left > 0 && call("cuMemAlloc_v2", &kept, left) != CUDA_SUCCESS) return;
    for (size_t bytes = size_t{1} << 20; bytes > 0; bytes /= 2)
      for (CUdeviceptr taken = 0; call("cuMemAlloc_v2", &taken, bytes) == CUDA_SUCCESS;) taken_.push_back(taken);
    if (left > 0) call("cuMemFree_v2", kept);
  }
  ~Taken() {
    for (const CUdeviceptr taken : taken_) call("cuMemFree_v2", taken);
  }
  Taken(const Taken &) = delete;
  Taken &operator=(const Taken &) = delete;

 private:
  std::vector<CUdeviceptr> taken_;
};

/// Each of the call's own allocations, one at a time, is the first that the device has no room for: its images, which
/// it loads, and the workspace, all of it. With room again, everything is as it should be.
// [F56]
TEST(Gradients, MemoryOfTheDeviceMayBeShort) {
  if (!is_emulated()) GTEST_SKIP() << needs_the_emulator;
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  for (const Way &way : both_ways(short_turns_case())) {
    SCOPED_TRACE(way.name);
    bool image = false, workspace = false;
    for (const int64_t left : {0, 4, 8, 12, 1000, -1}) {  // negative: fewer than the workspace has
      const int outcome = in_child({{"FA_EMU_MEMORY", "1M"}, {"FA_EMU_QUIET", "1"}}, [&] {
        const InContext in;
        const Shared shared;
        const BackwardInstance instance(way.c);
        const Op op(desc_of(way.c));
        if (op.status != FA_OK) return bad(fa_last_error());
        size_t bytes = 0;
        if (fa_backward_workspace_size(op.op, &instance.call, &bytes) != FA_OK) return bad(fa_last_error());
        instance.clear_gradients();
        const std::vector<char> before = instance.gradient_bits();
        int which = 10;
        {
          const Taken others(left < 0 ? bytes - size_t(-left) : size_t(left));
          if (fa_backward(op.op, &instance.call) != FA_ERROR_OUT_OF_MEMORY) return bad("not refused");
          const std::string text = fa_last_error();
          if (text.find("CUDA_ERROR_OUT_OF_MEMORY") == std::string::npos) return bad(text);
          if (instance.gradient_bits() != before) return bad("gradients were written");
          which += text.find("cuMemAllocAsync") != std::string::npos;
        }
        const Log log;
        if (fa_backward(op.op, &instance.call) != FA_OK) return bad(fa_last_error());
        if (!log.has(way.said)) return bad(log.text);
        if (!reference::wait_for_gpu().empty()) return int(not_ours);
        const std::string failure = compare(instance, reference::ExpectedGradients(instance));
        return failure.empty() ? which : bad(failure);
      });
      ASSERT_TRUE(outcome == 10 || outcome == 11) << left << " bytes left: " << outcome;
      (outcome == 10 ? image : workspace) = true;
    }
    EXPECT_TRUE(image);
    EXPECT_TRUE(workspace);
  }
}

/// A device has room for the kernels of two passes, and not for that of one loop.
TEST(Gradients, MemoryOfBlocksMayBeShort) {
  if (!is_emulated()) GTEST_SKIP() << needs_the_emulator;
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  constexpr int left_out = over + 1;
  const int outcome = in_child({{"FA_EMU_DEVICE", "sm_80:shared=99K"}, {"FA_EMU_QUIET", "1"}}, [] {
    if (!is_built("sm_80")) return left_out;
    const InContext in;
    const Shared shared;
    const BackwardInstance instance(turns_case());
    const Op op(desc_of(turns_case()));
    const Log log;
    if (fa_backward(op.op, &instance.call) != FA_OK) return bad(fa_last_error());
    if (!log.has("in two passes: one loop needs more shared memory than the device has")) return bad(log.text);
    if (!reference::wait_for_gpu().empty()) return int(not_ours);
    const std::string failure = compare(instance, reference::ExpectedGradients(instance));
    return failure.empty() ? int(fine) : bad(failure);
  });
  if (outcome == left_out) GTEST_SKIP() << "FA_ARCHS leaves out 80";
  EXPECT_EQ(outcome, fine);
}

/// Each of them, or under sanitizers, where a call takes half a second, every ninth. Those of loading and placing are
/// fault_test.cpp's too.
// [F73]
TEST(Gradients, CallsOfTheDriverMayFail) {
  if (!is_emulated()) GTEST_SKIP() << needs_the_emulator;
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  for (const Way &way : both_ways(short_turns_case())) {
    SCOPED_TRACE(way.name);
    const reference::ExpectedGradients expected{BackwardInstance(way.c)};  // once for all children
    constexpr int apart = TEST_DRIVER_CALLS_APART;
    int errors = 0;
    for (int k = 1, outcome = fine; outcome != over; k += apart) {
      const std::string number = std::to_string(k);
      outcome = in_child({{"FA_EMU_FAIL", number.c_str()}, {"FA_EMU_QUIET", "1"}},
                         [&] { return run_with_one_failure(way, expected); });
      ASSERT_NE(outcome, wrong) << "call " << k;
      ASSERT_LT(outcome, 100) << "call " << k << " kills the process";
      errors += outcome == reported;
    }
    EXPECT_GT(errors, 40 / apart) << "too few calls were seen to fail";
  }
}

}  // namespace
}  // namespace cuda_test
