// An op of several families: each call takes the first that supports it. Runs on a libfa with the family of family/.
#include "cuda/fixture.h"
#include "reference/append.h"
#include "reference/backward.h"
#include "reference/gpu.h"
#include "reference/merge.h"

namespace cuda_test {
namespace {

constexpr const char *best = "cuda.sm_90a.probe", *other = "cuda.sm_90a.simt";

/// Calls that the probe supports: more work tiles than the device has blocks, and an odd number of them.
Case plain_case() {
  Case c;
  c.b = 67, c.sq = 40, c.sk = 50, c.hq = 3, c.hkv = 3, c.d = 16, c.q = FA_F32, c.mask = FA_MASK_CAUSAL;
  return c;
}

// [F155]
TEST(Family, TheOpHasTheNameOfItsBestFamily) {
  EXPECT_EQ(Op(desc_of(plain_case())).kernel(), best);
  Case half = plain_case();
  half.q = FA_F16;
  EXPECT_EQ(Op(desc_of(half)).kernel(), other);
}

// [F156]
TEST(Family, EachCallTakesTheFirstThatSupportsIt) {
  struct Way {
    const char *taken, *why;
    void (*change)(Case *);
  };
  const Way ways[] = {
      {best, "", [](Case *) {}},
      {best, "", [](Case *c) { c->b = 1; }},  // fewer work tiles than blocks, and an odd number
      {other, "not cuda.sm_90a.probe fa_forward_plain: a softcap", [](Case *c) { c->softcap = 3; }},
      {other, "not cuda.sm_90a.probe fa_forward_plain: scores with an addend", [](Case *c) { c->alibi = "h"; }},
      {other, "not cuda.sm_90a.probe fa_forward_split: the family does not have it", [](Case *c) { c->splits = 2; }},
  };
  for (const Way &way : ways) {
    Case c = plain_case();
    way.change(&c);
    std::string log;
    EXPECT_EQ(run(c, &log), "");
    EXPECT_NE(log.find(std::string("call: ") + way.taken), std::string::npos) << log;
    EXPECT_NE(log.find(way.why), std::string::npos) << log;
  }
}

// [F157]
TEST(Family, BatchInvarianceRunsAllCallsOnOneFamily) {
  Case c = plain_case();
  c.flags = FA_FLAG_BATCH_INVARIANT;
  std::string log;
  EXPECT_EQ(run(c, &log), "");
  EXPECT_EQ(Op(desc_of(c)).kernel(), other);
  EXPECT_EQ(log.find("probe"), std::string::npos) << log;
}

// [F154]
TEST(Family, OneThatIsAskedForByNameRunsAlone) {
  setenv("FA_FORCE_KERNEL", best, 1);
  std::string log;
  EXPECT_EQ(run(plain_case(), &log), "");
  Case c = plain_case();
  c.softcap = 3;
  const InContext in;
  Call own(c);
  const Op op(desc_of(c));
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_UNSUPPORTED);
  EXPECT_EQ(last_error_lacks({"FA_FORCE_KERNEL", best, "some calls only", "a softcap"}), "");
  unsetenv("FA_FORCE_KERNEL");
}

/// Each cause of a missing image has its text.
TEST(Family, OneWithoutAnImageSaysWhy) {
  struct Missing {
    const char *kernel;
    fa_dtype dtype;
    int dim;
    const char *why;
  };
  const Missing cases[] = {
      {best, FA_F16, 16, "it has no kernels for f16"},
      {best, FA_BF16, 16, "sm_90a lacks the instructions of its kernels for bf16"},
      {other, FA_F32, 200, "its head dimensions go up to 128"},
      {other, FA_F32, 65, "left out its image sm_90a.simt.f32.128; expected a build whose FA_IMAGE_FILTER"},
      {best, FA_F32, 17, "its head dimensions go up to 16"},
  };
  for (const Missing &missing : cases) {
    setenv("FA_FORCE_KERNEL", missing.kernel, 1);
    Case c = plain_case();
    c.q = missing.dtype, c.d = missing.dim;
    EXPECT_EQ(Op(desc_of(c)).status, FA_ERROR_UNSUPPORTED);
    EXPECT_EQ(last_error_lacks({"FA_FORCE_KERNEL", missing.kernel, missing.why}), "");
  }
  unsetenv("FA_FORCE_KERNEL");
}

/// The workspace of an op is enough whichever of its families takes the call.
TEST(Family, TheWorkspaceIsEnoughForEach) {
  const InContext in;
  Case c = plain_case();
  c.splits = 2;
  Call own(c);
  const Op op(desc_of(c));
  size_t bytes = 0;
  ASSERT_EQ(fa_forward_workspace_size(op.op, &own.args, &bytes), FA_OK);
  ASSERT_GT(bytes, 0u);
  own.args.workspace = own.place(bytes, Where::device);
  own.args.workspace_size = bytes;
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
  call("cuMemFree_v2", reinterpret_cast<CUdeviceptr>(own.args.workspace));
}

/// These lists of kernels lack the backward pass, as builds with FA_BACKWARD=OFF.
// [F185]
TEST(Family, WithoutKernelsForGradientsTheyAreRefused) {
  reference::share_memory(true);
  Case c = plain_case();
  c.b = 1, c.backward = true;
  const reference::BackwardInstance instance(c);
  const std::vector<char> before = instance.gradient_bits();
  for (const fa_device device : {FA_DEVICE_CUDA, FA_DEVICE_AUTO}) {
    const Op op(desc_of(c, device));
    EXPECT_EQ(fa_backward(op.op, &instance.call), FA_ERROR_UNSUPPORTED);
    EXPECT_EQ(last_error_lacks({"fa_backward", "device 0", "FA_BACKWARD=ON", "memory of the host"}), "");
  }
  EXPECT_EQ(instance.gradient_bits(), before);
  reference::share_memory(false);
}

/// Nor of merges.
TEST(Family, WithoutAKernelForMergesTheyAreRefused) {
  reference::share_memory(true);
  const reference::MergeInstance instance{reference::MergeCase()};
  const std::vector<char> before = instance.output_bits();
  fa_desc desc = instance.desc;
  for (const fa_device device : {FA_DEVICE_CUDA, FA_DEVICE_AUTO}) {
    desc.device = device;
    const Op op(desc);
    EXPECT_EQ(fa_merge(op.op, &instance.args), FA_ERROR_UNSUPPORTED);
    EXPECT_EQ(last_error_lacks({"fa_merge", "device 0", "no kernel for it"}), "");
  }
  EXPECT_EQ(instance.output_bits(), before);
  reference::share_memory(false);
}

/// Nor of appends.
TEST(Family, WithoutAKernelForAppendsTheyAreRefused) {
  reference::share_memory(true);
  const reference::AppendInstance instance{reference::AppendCase()};
  const std::vector<char> before = instance.outputs();
  fa_desc desc = instance.desc;
  for (const fa_device device : {FA_DEVICE_CUDA, FA_DEVICE_AUTO}) {
    desc.device = device;
    const Op op(desc);
    EXPECT_EQ(fa_append(op.op, &instance.args), FA_ERROR_UNSUPPORTED);
    EXPECT_EQ(last_error_lacks({"fa_append", "device 0", "no kernel for it"}), "");
  }
  EXPECT_EQ(instance.outputs(), before);
  reference::share_memory(false);
}

}  // namespace
}  // namespace cuda_test
