// Calls that a kernel does not support, where it is forced by name.
#include "cuda/fixture.h"

namespace cuda_test {
namespace {

/// By kernels that read no codes: each in k, and in v next to another k.
TEST(Unsupported, QuantisedKeysAndValuesByName) {
  EXPECT_EQ(call("cuInit", 0u), CUDA_SUCCESS);
  const std::string name = emulated::capability() < 80 ? "cuda.sm_75.simt" : "cuda.sm_80.simt";
  if (!is_built(name)) GTEST_SKIP() << "FA_ARCHS leaves out " << name;
  setenv("FA_FORCE_KERNEL", name.c_str(), 1);
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
