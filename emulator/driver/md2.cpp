// As in RFC 1319: blocks of 16 bytes, a checksum block behind the padded message, 18 rounds over 48 bytes.
#include "driver/md2.h"

#include <algorithm>
#include <vector>

namespace fa::emu::driver {
namespace {

constexpr size_t block = 16;

/// The numbers 0 to 255, shuffled by the digits of pi.
constexpr uint8_t shuffled[256] = {
    41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167, 5,   243, 192, 199,
    115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,  253, 212, 224, 22,  103, 66,  111, 24,
    138, 23,  229, 18,  190, 78,  196, 214, 218, 158, 222, 73,  160, 251, 245, 142, 187, 47,  238, 122, 169, 104,
    121, 145, 21,  178, 7,   63,  148, 194, 16,  137, 11,  34,  95,  33,  128, 127, 93,  154, 90,  144, 50,  39,
    53,  62,  204, 231, 191, 247, 151, 3,   255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,  172, 86,
    170, 198, 79,  184, 56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4,   241, 69,  157, 112, 89,
    100, 113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,   27,  96,  37,  173, 174, 176, 185, 246, 28,  70,
    97,  105, 52,  64,  126, 15,  85,  71,  163, 35,  221, 81,  175, 58,  195, 92,  249, 206, 186, 197, 234, 38,
    44,  83,  13,  110, 133, 40,  132, 9,   211, 223, 205, 244, 65,  129, 77,  82,  106, 220, 55,  200, 108, 193,
    171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120, 136, 149, 139, 227, 99,  232, 109, 233, 203, 213, 254,
    59,  0,   29,  57,  242, 239, 183, 14,  102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,  49,  68,
    80,  180, 143, 237, 31,  26,  219, 153, 141, 51,  159, 17,  131, 20,
};

}  // namespace

Md2Digest md2(std::span<const uint8_t> message) {
  std::vector<uint8_t> padded(message.begin(), message.end());
  const size_t padding = block - message.size() % block;
  padded.insert(padded.end(), padding, static_cast<uint8_t>(padding));
  uint8_t checksum[block] = {}, last = 0;
  for (size_t i = 0; i < padded.size(); i++) last = checksum[i % block] ^= shuffled[padded[i] ^ last];
  padded.insert(padded.end(), checksum, checksum + block);
  uint8_t state[3 * block] = {};
  for (size_t begin = 0; begin < padded.size(); begin += block) {
    for (size_t i = 0; i < block; i++) {
      state[block + i] = padded[begin + i];
      state[2 * block + i] = state[i] ^ padded[begin + i];
    }
    uint8_t carry = 0;
    for (uint8_t round = 0; round < 18; round++) {
      for (uint8_t &byte : state) carry = byte ^= shuffled[carry];
      carry = static_cast<uint8_t>(carry + round);
    }
  }
  Md2Digest digest;
  std::copy_n(state, block, digest.begin());
  return digest;
}

Md2Digest hmac_md2(const Md2Digest &key, std::span<const uint8_t> message) {
  auto keyed = [&](uint8_t pad, std::span<const uint8_t> rest) {
    std::vector<uint8_t> text;
    for (uint8_t byte : key) text.push_back(byte ^ pad);
    text.insert(text.end(), rest.begin(), rest.end());
    return md2(text);
  };
  return keyed(0x5c, keyed(0x36, message));
}

}  // namespace fa::emu::driver
