// Tensor maps: an encoded map is decoded, and every rule for the arguments is enforced, one violation at a time.
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

/// CuTe DSL's host code writes maps in the bits that GPUs read; these are of bf16, 256 x 128 in 2 heads, in boxes of
/// 128 x 64 with a swizzle of 128 bytes, and garbage behind.
TEST(TensorMap, InNvidiasBits) {
  const uint64_t words[16] = {
      0x6fffd9e00000, 0x1000046532, 0x0001000000002000, 0, 0xff0000007f, 1, 0x3f00000000000000, 0x7f, 4, 0x5f,
      0x6f,           0x7f};
  Bytes map;
  std::copy_n(reinterpret_cast<const uint8_t *>(words), 128, map.bytes);
  TensorMap decoded;
  ASSERT_TRUE(fa::emu::decode(map.bytes, decoded));
  EXPECT_EQ(decoded.address, 0x6fffd9e00000u);
  EXPECT_EQ(decoded.type, fa::emu::TensorType::bf16);
  EXPECT_EQ(decoded.rank, 4u);
  EXPECT_EQ(decoded.swizzle, fa::emu::TensorSwizzle::span128);
  const uint64_t extents[] = {128, 256, 2, 1}, strides[] = {2, 256, 0x20000, 0x100000};
  const uint32_t box[] = {64, 128, 1, 1};
  for (size_t i = 0; i < 4; i++) {
    EXPECT_EQ(decoded.extent[i], extents[i]) << i;
    EXPECT_EQ(decoded.stride[i], strides[i]) << i;
    EXPECT_EQ(decoded.box[i], box[i]) << i;
  }
  // The same with one bit more that no map was seen to have, of each word that says something.
  for (size_t bit : {64 + 11, 64 + 15, 64 + 17, 64 + 19, 64 + 31, 192 + 40, 384 + 33, 448 + 40}) {
    Bytes other = map;
    other.bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_FALSE(fa::emu::decode(other.bytes, decoded)) << bit;
  }
}

TEST(TensorMap, EveryRule) {
  const std::pair<const char *, std::function<void(Arguments &)>> violations[] = {
      {"tensorDataType", [](Arguments &a) { a.type = 16; }},
      {"tensorRank", [](Arguments &a) { a.rank = 0; }},
      {"tensorRank", [](Arguments &a) { a.rank = 6; }},
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

/// tensormap.replace fills it in on the device; until then the map is not one to copy by.
TEST(TensorMap, NoAddressYet) {
  Bytes map;
  Arguments arguments;
  arguments.address = 0;
  EXPECT_EQ(encode(arguments, map.bytes), "");
  TensorMap decoded;
  ASSERT_TRUE(fa::emu::decode(map.bytes, decoded));
  EXPECT_NE(fa::emu::wrong_with(decoded).find("nothing has set its .global_address"), std::string::npos)
      << fa::emu::wrong_with(decoded);
  EXPECT_EQ(fa::emu::replace_address(map.bytes, reinterpret_cast<void *>(0x7f0000001000)), "");
  ASSERT_TRUE(fa::emu::decode(map.bytes, decoded));
  EXPECT_EQ(fa::emu::wrong_with(decoded), "");
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
