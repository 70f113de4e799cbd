// The format is taken apart into its conversions; the host's snprintf does each.
#include "exec/print.h"

#include <bit>
#include <cstdio>
#include <string_view>

namespace fa::emu {
namespace {

constexpr std::string_view flags = "-+ #0", integers = "diouxXc", floats = "eEfFgGaA", wide = "lzjt";

template <class T>
std::string formatted(const std::string &conversion, T value) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  int length = std::snprintf(nullptr, 0, conversion.c_str(), value);
  std::string text(static_cast<size_t>(length < 0 ? 0 : length) + 1, '\0');
  std::snprintf(text.data(), text.size(), conversion.c_str(), value);
#pragma GCC diagnostic pop
  text.pop_back();
  return text;
}

}  // namespace

std::string format_print(const std::string &format, const std::function<uint64_t(uint32_t, uint32_t)> &read,
                         const std::function<std::string(uint64_t)> &text) {
  std::string result;
  uint32_t offset = 0;
  auto next = [&](uint32_t bytes) {
    offset = (offset + bytes - 1) / bytes * bytes;
    uint64_t value = read(offset, bytes);
    offset += bytes;
    return value;
  };
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      result += format[at++];
      continue;
    }
    std::string conversion = "%";
    bool long_integer = false;
    for (at++; at < format.size(); at++) {
      char c = format[at];
      if (c == '*')
        conversion += std::to_string(static_cast<int32_t>(next(4)));
      else if (wide.find(c) != std::string_view::npos)
        long_integer = true;
      else if (c != 'h' && flags.find(c) == std::string_view::npos && c != '.' && (c < '0' || c > '9'))
        break;
      else
        conversion += c;
    }
    if (at == format.size()) break;
    char kind = format[at++];
    if (kind == '%') {
      result += '%';
    } else if (kind == 's') {
      result += formatted(conversion + 's', text(next(8)).c_str());
    } else if (kind == 'p') {
      result += formatted(conversion + 'p', reinterpret_cast<void *>(next(8)));
    } else if (floats.find(kind) != std::string_view::npos) {
      result += formatted(conversion + kind, std::bit_cast<double>(next(8)));
    } else if (integers.find(kind) != std::string_view::npos) {
      result += long_integer ? formatted(conversion + "ll" + kind, static_cast<long long>(next(8)))
                             : formatted(conversion + kind, static_cast<int>(next(4)));
    } else {
      result += conversion + kind;
    }
  }
  return result;
}

}  // namespace fa::emu
