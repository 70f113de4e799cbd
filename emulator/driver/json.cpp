// Escapes characters that JSON does not allow.
#include "driver/json.h"

#include <cstdio>

namespace fa::emu::driver {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    char escape[8];
    if (c == '"' || c == '\\') {
      result += '\\', result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string triple(const uint32_t (&values)[3]) {
  return "[" + std::to_string(values[0]) + "," + std::to_string(values[1]) + "," + std::to_string(values[2]) + "]";
}

}  // namespace fa::emu::driver
