// What the CPU has and GPUs have not yet: a call that would run on one is refused by name, and others run.
#include "cuda/fixture.h"

namespace cuda_test {
namespace {

Case tree_case() {
  Case c = small_case();
  c.mask = FA_MASK_CAUSAL, c.tree = "bh:tree", c.depths = "b", c.alibi = "h";
  return c;
}

// [F278]
TEST(Unsupported, TreesOnTheDevice) {
  const InContext in;
  for (const fa_device device : {FA_DEVICE_CUDA, FA_DEVICE_AUTO}) {
    const Op op(desc_of(tree_case(), device));
    ASSERT_EQ(op.status, FA_OK) << fa_last_error();
    Call own(tree_case());
    EXPECT_EQ(fa_forward(op.op, &own.args), FA_ERROR_UNSUPPORTED);
    EXPECT_EQ(last_error_lacks({"fa_forward on device 0", "args.tree_mask", "no GPU kernel", "FA_DEVICE_CPU"}), "");
    own.args.tree_mask = own.args.tree_depth = {};  // the op is none the worse for it
    EXPECT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  }
}

/// The CPU computes them for an op of FA_DEVICE_AUTO where the tensors are in memory of the host.
// [F76] [F278]
TEST(Unsupported, TreesInMemoryOfTheHost) {
  const InContext in;
  const Op op(desc_of(tree_case(), FA_DEVICE_AUTO));
  ASSERT_EQ(op.status, FA_OK) << fa_last_error();
  EXPECT_EQ(op.kernel().rfind("cuda.", 0), 0u) << op.kernel();
  Call own(tree_case(), Where::host);
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
}

/// By kernels that read no codes, where they are forced by name: each in k, and in v next to another k.
TEST(Unsupported, QuantisedKeysAndValuesByName) {
  if (!is_built("cuda.sm_80.simt")) GTEST_SKIP() << "FA_ARCHS leaves out 80";
  setenv("FA_FORCE_KERNEL", "cuda.sm_80.simt", 1);
  for (const fa_dtype dtype : {FA_I8, FA_E4M3, FA_E5M2, FA_I4, FA_U4, FA_Q8_0, FA_Q4_0})
    for (const bool of_v : {false, true}) {
      Case c = small_case();
      c.d = 32;
      (of_v ? c.v : c.kv) = dtype;
      if (of_v) c.kv = c.q;
      EXPECT_EQ(Op(desc_of(c)).status, FA_ERROR_UNSUPPORTED) << dtype;
      EXPECT_EQ(last_error_lacks({std::string("do not read ") + (of_v ? "v" : "k") + " of FA_"}), "") << dtype;
    }
  Case c = small_case();
  c.kv = FA_F16, c.v = FA_BF16;
  EXPECT_EQ(Op(desc_of(c)).status, FA_ERROR_UNSUPPORTED);
  EXPECT_EQ(last_error_lacks({"v of another type than k"}), "");
  unsetenv("FA_FORCE_KERNEL");
}

}  // namespace
}  // namespace cuda_test
