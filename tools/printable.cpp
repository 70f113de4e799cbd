#include "printable.h"

#include <fmt/format.h>

#include <cstddef>

namespace fa::tool {
namespace {

/// The bytes of the character that text begins with, 0 when they are no UTF-8 or a control character.
size_t character_bytes(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  const size_t bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  const bool control = byte(0) == 0xc2 && byte(1) < 0xa0;
  return control ? 0 : bytes;
}

}  // namespace

std::string printable(std::string_view text, bool lines) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = lines && text[0] == '\n' ? 1 : character_bytes(text);
    result +=
        bytes != 0 ? std::string(text.substr(0, bytes)) : fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    text.remove_prefix(bytes != 0 ? bytes : 1);
  }
  return result;
}

}  // namespace fa::tool
