#include "text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <numeric>
#include <string_view>

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

namespace {

struct Unit {
  double size;
  const char *name;
};

/// Three digits of a value in the first unit that it fills; "" where it fills none.
std::string in_unit(double value, std::initializer_list<Unit> units) {
  for (const Unit unit : units) {
    const double n = value / unit.size;
    if (n >= 0.9995) return fmt::format("{:.{}f} {}", n, n < 9.995 ? 2 : n < 99.95 ? 1 : 0, unit.name);
  }
  return "";
}

}  // namespace

std::string seconds_text(double seconds) {
  const std::string text = in_unit(seconds, {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}});
  return text.empty() ? fmt::format("{:.0f} ns", seconds * 1e9) : text;
}

std::string bytes_text(double bytes) {
  const std::string text = in_unit(bytes, {{1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}});
  return text.empty() ? fmt::format("{:.0f} bytes", bytes) : text;
}

namespace {

/// The number of single-letter edits from a to b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(const std::string &word, const std::vector<std::string> &names) {
  const std::string given = word.substr(0, word.find('='));
  std::string best;
  // More than two edits, or one for each three letters, are another word.
  const size_t letters = given.size() - std::min(given.size(), given.find_first_not_of('-'));
  size_t best_distance = std::clamp<size_t>(letters / 3, 1, 2) + 1;
  for (const std::string &name : names) {
    const size_t distance = edit_distance(given, name);
    if (distance < best_distance) best = name, best_distance = distance;
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

}  // namespace fa::tool
