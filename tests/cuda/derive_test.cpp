// The parameters that the host derives from a call in place of every block.
#include "cuda/derive.h"

#include <gtest/gtest.h>

#include "reference/random.h"

namespace fa::cuda {
namespace {

/// By quotient's product and shift, which are exact for every number and every divisor.
TEST(Derive, DivisionIsByAProductAndAShift) {
  reference::Random random(3);
  for (int i = 0; i < 200000; ++i) {
    constexpr int64_t most = INT32_MAX;
    const int64_t n = i < 5000 ? i : random.chance(50) ? random.between(1, most) : most >> random.between(0, 30);
    const kernels::FastDivmod by_n = divisor_of(n);
    const int64_t multiple = n == 0 ? most : most / n * n;
    for (const int64_t x : {int64_t{0}, n, multiple - 1, multiple, most, random.between(0, most)}) {
      if (x < 0 || x > most) continue;
      const uint64_t high = (static_cast<uint64_t>(x) * by_n.multiplier) >> 32;
      ASSERT_EQ(int64_t(uint32_t(high + static_cast<uint64_t>(x)) >> by_n.shift), n == 0 ? 0 : x / n)
          << x << " / " << n;
    }
  }
}

}  // namespace
}  // namespace fa::cuda
