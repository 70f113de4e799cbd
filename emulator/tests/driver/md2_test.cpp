// Appendix A.5 of RFC 1319, and HMAC put together from its definition.
#include "driver/md2.h"

#include <gtest/gtest.h>

#include <string>

namespace {

using namespace fa::emu::driver;

std::span<const uint8_t> bytes(const std::string &text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}
std::string hex(const Md2Digest &digest) {
  std::string text;
  for (uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(Md2, HashesAsTheRfcSays) {
  EXPECT_EQ(hex(md2(bytes(""))), "8350e5a3e24c153df2275c9f80692773");
  EXPECT_EQ(hex(md2(bytes("a"))), "32ec01ec4a6dac72c0ab96fb34c0b5d1");
  EXPECT_EQ(hex(md2(bytes("abc"))), "da853b0d3f88d99b30283a69e6ded6bb");
  EXPECT_EQ(hex(md2(bytes("message digest"))), "ab4f496bfb2a530b219ff33031fe06b0");
  EXPECT_EQ(hex(md2(bytes("abcdefghijklmnopqrstuvwxyz"))), "4e8ddff3650292ab5a4108c3aa47940b");
}

TEST(Md2, AKeyTurnsItIntoAnotherHash) {
  const Md2Digest key = {'k', 'e', 'y'};
  std::string inner, outer;
  for (uint8_t byte : key) inner += static_cast<char>(byte ^ 0x36), outer += static_cast<char>(byte ^ 0x5c);
  const Md2Digest first = md2(bytes(inner + "text"));
  EXPECT_EQ(hmac_md2(key, bytes("text")), md2(bytes(outer + std::string(first.begin(), first.end()))));
}

}  // namespace
