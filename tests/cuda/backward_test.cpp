// fa_backward on a GPU: in graphs, whatever fails beneath it, and which kernels a call takes. Tensors are the host's,
// which the GPU reaches at the same addresses.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "cuda/graph.h"
#include "judge/compare_gradients.h"
#include "judge/gpu.h"

namespace cuda_test {
namespace {

using test::BackwardInstance;

/// Every kernel has something to do.
Case whole_case() {
  Case c = small_case();
  c.backward = true;
  c.d = 16, c.mask = FA_MASK_CAUSAL, c.bias = "f32:k", c.dbias = "k", c.sinks = c.dsinks = "h", c.used_k = true;
  return c;
}

/// Memory of the tests is shared with the GPU for as long as one lives.
struct Shared {
  Shared() { test::share_memory(true); }
  ~Shared() { test::share_memory(false); }
  Shared(const Shared &) = delete;
  Shared &operator=(const Shared &) = delete;
};

/// Kernels are loaded by the first call, outside a capture; graphs then follow what arrays hold. The first test of its
/// process that has any.
// [F193]
TEST(Gradients, AreCapturedOnceTheirKernelsAreLoaded) {
  const InContext in;
  const Shared shared;
  const Stream stream;
  BackwardInstance instance(whole_case());
  instance.call.stream = stream.handle;
  const Op op(desc_of(whole_case()));
  ASSERT_EQ(fa_backward_workspace_size(op.op, &instance.call, &instance.call.workspace_size), FA_OK);
  const test::GuardedMemory workspace((instance.call.workspace_size + 255) / 256 * 256, test::Guard::end);
  instance.call.workspace = workspace.data();
  {
    const Graph graph(op, instance.call);
    EXPECT_EQ(graph.status, FA_ERROR_UNSUPPORTED);
    EXPECT_EQ(last_error_lacks({"args.stream", "captured", "run it there once"}), "");
  }
  ASSERT_EQ(fa_backward(op.op, &instance.call), FA_OK) << fa_last_error();
  EXPECT_EQ(test::wait_for_gpu(), "");
  const Graph graph(op, instance.call);
  ASSERT_EQ(graph.status, FA_OK) << fa_last_error();
  EXPECT_EQ(graph.nodes, 5u);  // delta, dsinks, dk and dv, dq, dbias
  for (const int32_t fewer : {0, 3, 1}) {
    instance.used_k[0] = std::max(instance.used_k[0] - fewer, 0);
    instance.clear_gradients();
    ASSERT_EQ(graph.launch(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(test::wait_for_gpu(), "");
    EXPECT_EQ(compare(instance, test::ExpectedGradients(instance)), "") << fewer;
  }
}

/// A gradient that is not asked for has no kernel; one that a better kernel does not serve says why.
// [F175]
TEST(Gradients, TakeTheKernelsThatTheyNeed) {
  const InContext in;
  const Shared shared;
  struct Way {
    const char *grads;
    std::vector<const char *> kernels, others;
  };
  const Way ways[] = {{"q", {"fa_backward_delta", "fa_backward_dq"}, {"fa_backward_dkv", "dbias", "dsinks"}},
                      {"v", {"fa_backward_delta", "fa_backward_dkv"}, {"fa_backward_dq", "dbias", "dsinks"}}};
  for (const Way &way : ways) {
    Case c = small_case();
    c.backward = true, c.grads = way.grads;
    const BackwardInstance instance(c);
    const Op op(desc_of(c));
    const Log log;
    ASSERT_EQ(fa_backward(op.op, &instance.call), FA_OK) << fa_last_error();
    EXPECT_EQ(test::wait_for_gpu(), "");
    for (const char *name : way.kernels) EXPECT_NE(log.text.find(name), std::string::npos) << log.text;
    for (const char *name : way.others) EXPECT_EQ(log.text.find(name), std::string::npos) << log.text;
  }
}

/// A workspace of the size that was asked for is enough, one of a byte less is refused.
// [F188] [F192]
TEST(Gradients, TheWorkspaceIsEnoughAndNoSmaller) {
  const InContext in;
  const Shared shared;
  const BackwardInstance instance(whole_case());
  const Op op(desc_of(whole_case()));
  fa_backward_args call = instance.call;
  ASSERT_EQ(fa_backward_workspace_size(op.op, &call, &call.workspace_size), FA_OK) << fa_last_error();
  ASSERT_GT(call.workspace_size, 0u);
  const test::GuardedMemory workspace((call.workspace_size + 255) / 256 * 256, test::Guard::end);
  call.workspace = workspace.data();
  instance.clear_gradients();
  ASSERT_EQ(fa_backward(op.op, &call), FA_OK) << fa_last_error();
  EXPECT_EQ(test::wait_for_gpu(), "");
  EXPECT_EQ(compare(instance, test::ExpectedGradients(instance)), "");
  instance.clear_gradients();
  const std::vector<char> before = instance.gradient_bits();
  --call.workspace_size;
  EXPECT_EQ(fa_backward(op.op, &call), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"workspace_size", "fa_backward_workspace_size"}), "");
  EXPECT_EQ(test::wait_for_gpu(), "");
  EXPECT_EQ(instance.gradient_bits(), before);
}

/// What a child may answer.
enum Outcome { fine, told, wrong, not_ours, over };

int bad(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return wrong;
}

/// Runs a call, twice if the first time fails, as only one call of the driver does.
int run_with_one_failure() {
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
    return told;
  };
  try {
    const Shared shared;
    const BackwardInstance instance(whole_case());
    const auto expected = std::make_unique<test::ExpectedGradients>(instance);
    Op first(desc_of(whole_case()));
    if (first.status != FA_OK) return not_ours;  // fault_test.cpp has it
    fa_status status = fa_backward(first.op, &instance.call);
    if (const int outcome = judge(status)) {
      if (outcome == wrong) return wrong;
      instance.clear_gradients();
      if ((status = fa_backward(first.op, &instance.call)) != FA_OK) return judge(status);
    }
    if (!test::wait_for_gpu().empty()) return failed ? wrong : not_ours;
    const std::string failure = compare(instance, *expected);
    if (!failure.empty()) return bad(failure);
  } catch (const std::exception &) {
    return failed ? wrong : not_ours;
  }
  if (failed) return told;
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

/// Each of the call's own allocations in turn is the first that the device has no room for: its images, which it loads,
/// and the workspace. With room again, everything is as it should be.
// [F56]
TEST(Gradients, MemoryOfTheDeviceMayBeShort) {
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  bool image = false, workspace = false;
  for (const size_t left : {0, 4, 8, 12, 1000}) {
    const int outcome = in_child({{"FA_EMU_MEMORY", "1M"}, {"FA_EMU_QUIET", "1"}}, [&] {
      const InContext in;
      const Shared shared;
      const BackwardInstance instance(whole_case());
      const Op op(desc_of(whole_case()));
      if (op.status != FA_OK) return bad(fa_last_error());
      instance.clear_gradients();
      const std::vector<char> before = instance.gradient_bits();
      int which = 10;
      {
        const Taken others(left);
        if (fa_backward(op.op, &instance.call) != FA_ERROR_OUT_OF_MEMORY) return bad("not refused");
        const std::string text = fa_last_error();
        if (text.find("CUDA_ERROR_OUT_OF_MEMORY") == std::string::npos) return bad(text);
        if (instance.gradient_bits() != before) return bad("gradients were written");
        which += text.find("cuMemAllocAsync") != std::string::npos;
      }
      if (fa_backward(op.op, &instance.call) != FA_OK) return bad(fa_last_error());
      if (!test::wait_for_gpu().empty()) return int(not_ours);
      const std::string failure = compare(instance, test::ExpectedGradients(instance));
      return failure.empty() ? which : bad(failure);
    });
    ASSERT_TRUE(outcome == 10 || outcome == 11) << left << " bytes left: " << outcome;
    (outcome == 10 ? image : workspace) = true;
  }
  EXPECT_TRUE(image);
  EXPECT_TRUE(workspace);
}

/// A sample of the calls, as each child loads all kernels; those of loading and placing are fault_test.cpp's too.
// [F73]
TEST(Gradients, CallsOfTheDriverMayFail) {
  ASSERT_FALSE(driver_is_loaded()) << needs_its_own_process;
  constexpr int step = 9;
  int errors = 0;
  for (int k = 1, outcome = fine; outcome != over; k += step) {
    const std::string number = std::to_string(k);
    outcome = in_child({{"FA_EMU_FAIL", number.c_str()}, {"FA_EMU_QUIET", "1"}}, run_with_one_failure);
    ASSERT_NE(outcome, wrong) << "call " << k;
    ASSERT_LT(outcome, 100) << "call " << k << " kills the process";
    errors += outcome == told;
  }
  EXPECT_GT(errors, 3) << "too few calls were seen to fail";
}

}  // namespace
}  // namespace cuda_test
