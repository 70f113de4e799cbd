// Attention forward kernels compiled by nvcc that use TMA, mbarriers and the tensor cores of sm_90a (wgmma) or sm_100a
// (tcgen05), against sums in double.
#include "tensor_attention.h"

#include <gtest/gtest.h>

namespace {

TEST(TensorAttention, WholeTiles) {
  EXPECT_LT(emulated::attention::error(TEST_KERNELS, 128, 256, 2), 2e-3);
}
TEST(TensorAttention, PartsOfTiles) {
  EXPECT_LT(emulated::attention::error(TEST_KERNELS, 100, 77, 1), 2e-3);
}

}  // namespace
