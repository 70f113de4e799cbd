// How evenly the blocks of persistent kernels end where a multiprocessor is slow or taken, as the emulator counts.
#include "cuda/fixture.h"
#include "engine/counted.h"

namespace cuda_test {
namespace {

Case causal_case(int64_t heads, int64_t rows) {
  Case c;
  c.b = 1, c.sq = c.sk = rows, c.hq = c.hkv = heads, c.d = 64, c.q = FA_BF16, c.mask = FA_MASK_CAUSAL, c.splits = 1;
  return c;
}

/// How much later the last block of a call's kernel ends than with even shares.
double unevenness(const Case &c) {
  const InContext in;
  Call own(c);
  const Op op(desc_of(c));
  const test::LaunchCounts launches;
  EXPECT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
  return launches.sum("end") / launches.sum("even");
}

/// Some eight work tiles a multiprocessor, of which a slow one keeps none that another could begin.
void expect_even(const std::string &kernel, const Case &c) {
  if (!is_built(kernel)) GTEST_SKIP() << "this build has no " << kernel;
  if (!test::LaunchCounts::available()) GTEST_SKIP() << test::LaunchCounts::unavailable_reason;
  EXPECT_LE(unevenness(c), 1.15);
}
TEST(Paced, TilesOfWarpgroups) {
  expect_even("cuda.sm_90a.wgmma", causal_case(2, 2048));
}
TEST(Paced, TilesOnTensorMemory) {
  expect_even("cuda.sm_100a.tcgen05", causal_case(4, 1792));
}

}  // namespace
}  // namespace cuda_test
