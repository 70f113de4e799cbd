// The reference's codes of quantised keys and values, by hand.
#include "reference/codes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/case.h"

namespace {

using namespace reference;

TEST(Codes, OfEachByte) {
  const auto is = [](fa_dtype dtype, uint8_t byte, double value) {
    EXPECT_EQ(load_code(&byte, dtype, 0), value) << name_of(dtype) << " " << int(byte);
  };
  is(FA_I8, 0x80, -128), is(FA_I8, 0x7f, 127), is(FA_I4, 0x78, -8), is(FA_I4, 0xf7, 7), is(FA_U4, 0x1f, 15);
  is(FA_E4M3, 0x7e, 448), is(FA_E4M3, 0x01, 0x1p-9), is(FA_E4M3, 0x08, 0x1p-6), is(FA_E4M3, 0xb8, -1);
  is(FA_E5M2, 0x7b, 57344), is(FA_E5M2, 0x01, 0x1p-16), is(FA_E5M2, 0x04, 0x1p-14), is(FA_E5M2, 0xfc, -INFINITY);
  for (const uint8_t nan : {0x7f, 0xff}) EXPECT_TRUE(std::isnan(load_code(&nan, FA_E4M3, 0)));
  for (const uint8_t nan : {0x7d, 0xff}) EXPECT_TRUE(std::isnan(load_code(&nan, FA_E5M2, 0)));
}

}  // namespace
