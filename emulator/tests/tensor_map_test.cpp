// Tensor maps: what is encoded is decoded, and every rule for the arguments is enforced, one violation at a time.
#include "exec/tensor_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tensor_map_arguments.h"

namespace {

using Arguments = emulated::TensorMapArguments;
using fa::emu::TensorMap;

struct alignas(64) Bytes {
  uint8_t bytes[128] = {};
};

std::string encode(const Arguments &arguments, void *out) {
  return arguments.encode(fa::emu::encode_tiled, out);
}

TEST(TensorMap, RoundTrip) {
  Bytes map;
  Arguments good;
  ASSERT_EQ(encode(good, map.bytes), "");
  TensorMap decoded;
  ASSERT_TRUE(fa::emu::decode(map.bytes, decoded));
  EXPECT_EQ(decoded.address, good.address);
  EXPECT_EQ(decoded.rank, 3u);
  EXPECT_EQ(decoded.element_bytes(), 2u);
  EXPECT_EQ(decoded.swizzle, fa::emu::TensorSwizzle::span128);
  EXPECT_EQ(decoded.fill, fa::emu::TensorFill::nan);
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(decoded.extent[i], good.extents[i]);
    EXPECT_EQ(decoded.box[i], good.box[i]);
    EXPECT_EQ(decoded.step[i], good.steps[i]);
    if (i > 0) {
      EXPECT_EQ(decoded.stride[i], good.strides[i - 1]);
    }
  }
  EXPECT_EQ(fa::emu::replace_address(map.bytes, reinterpret_cast<void *>(0x2000)), "");
  ASSERT_TRUE(fa::emu::decode(map.bytes, decoded));
  EXPECT_EQ(decoded.address, 0x2000u);
  EXPECT_NE(fa::emu::replace_address(map.bytes, reinterpret_cast<void *>(0x2008)), "");
  Bytes none;
  EXPECT_FALSE(fa::emu::decode(none.bytes, decoded));
}

/// CUTLASS and Triton clear bit 21 of the second word, for the sake of NVIDIA's drivers.
TEST(TensorMap, WordsOfOthersSayNothing) {
  Bytes map;
  Arguments good;
  TensorMap before, after;
  ASSERT_EQ(encode(good, map.bytes), "");
  ASSERT_TRUE(fa::emu::decode(map.bytes, before));
  for (uint8_t byte : {0x00, 0xff, 0x20}) {
    std::fill_n(map.bytes + 8, 8, byte);
    ASSERT_TRUE(fa::emu::decode(map.bytes, after));
    Bytes again, first;
    fa::emu::encode(before, first.bytes);
    fa::emu::encode(after, again.bytes);
    EXPECT_TRUE(std::equal(first.bytes, first.bytes + 128, again.bytes));
  }
}

TEST(TensorMap, EveryRule) {
  const std::pair<const char *, std::function<void(Arguments &)>> violations[] = {
      {"tensorDataType", [](Arguments &a) { a.type = 16; }},
      {"tensorRank", [](Arguments &a) { a.rank = 0; }},
      {"tensorRank", [](Arguments &a) { a.rank = 6; }},
      {"globalAddress", [](Arguments &a) { a.address = 0; }},
      {"globalAddress", [](Arguments &a) { a.address += 8; }},
      {"globalDim[1]", [](Arguments &a) { a.extents[1] = 0; }},
      {"globalDim[2]", [](Arguments &a) { a.extents[2]++; }},
      {"globalStrides[0]", [](Arguments &a) { a.strides[0] += 8; }},
      {"globalStrides[1]", [](Arguments &a) { a.strides[1] = uint64_t{1} << 40; }},
      {"boxDim[1]", [](Arguments &a) { a.box[1] = 0; }},
      {"boxDim[1]", [](Arguments &a) { a.box[1] = 257; }},
      {"boxDim[0]", [](Arguments &a) { a.box[0] = 60; }},
      {"swizzle's 128", [](Arguments &a) { a.box[0] = 128; }},
      {"swizzle's 64", [](Arguments &a) { a.swizzle = 2; }},
      {"swizzle's 32", [](Arguments &a) { a.swizzle = 1; }},
      {"elementStrides[1]", [](Arguments &a) { a.steps[1] = 0; }},
      {"elementStrides[2]", [](Arguments &a) { a.steps[2] = 9; }},
      {"interleave", [](Arguments &a) { a.interleave = 3; }},
      {"3 dimensions", [](Arguments &a) { a.interleave = 1, a.rank = 2; }},
      {"32-byte swizzle", [](Arguments &a) { a.interleave = 2; }},
      {"swizzle is no", [](Arguments &a) { a.swizzle = 7; }},
      {"l2Promotion", [](Arguments &a) { a.promotion = 4; }},
      {"oobFill is no", [](Arguments &a) { a.fill = 2; }},
      {"oobFill of NaN", [](Arguments &a) { a.type = 1; }},
  };
  for (const auto &[name, violate] : violations) {
    Arguments arguments;
    violate(arguments);
    Bytes map;
    std::string wrong = encode(arguments, map.bytes);
    EXPECT_NE(wrong.find(name), std::string::npos) << name << ": '" << wrong << "'";
    TensorMap decoded;
    EXPECT_FALSE(fa::emu::decode(map.bytes, decoded)) << name;
  }
  Bytes map;
  EXPECT_NE(encode({}, map.bytes + 32), "");
  EXPECT_NE(encode({}, nullptr), "");
}

TEST(TensorMap, Pixels) {
  Bytes map;
  const uint64_t extents[] = {64, 30, 20, 8}, strides[] = {128, 3840, 76800};
  const uint32_t steps[] = {1, 1, 1, 1};
  auto encode = [&](int lowest, int highest, uint32_t channels, uint32_t pixels) {
    const int lower[] = {lowest, -1}, upper[] = {highest, 0};
    return fa::emu::encode_im2col(map.bytes, 6, 4, reinterpret_cast<void *>(0x1000), extents, strides, lower, upper,
                                  channels, pixels, steps, 0, 3, 0, 0);
  };
  EXPECT_EQ(encode(-128, 127, 64, 1024), "");
  TensorMap decoded;
  ASSERT_TRUE(fa::emu::decode(map.bytes, decoded));
  EXPECT_TRUE(decoded.im2col);
  EXPECT_EQ(decoded.lower[0], -128);
  EXPECT_EQ(decoded.upper[0], 127);
  EXPECT_EQ(decoded.channels, 64u);
  EXPECT_EQ(decoded.pixels, 1024u);
  EXPECT_NE(encode(-129, 0, 64, 8), "");
  EXPECT_NE(encode(0, 128, 64, 8), "");
  EXPECT_NE(encode(0, 0, 257, 8), "");
  EXPECT_NE(encode(0, 0, 64, 1025), "");
  EXPECT_NE(encode(0, 0, 72, 8), "");
}

}  // namespace
