// Chooses the largest unit of which there is one.
#include "units.h"

#include <fmt/format.h>

#include <initializer_list>

namespace fa::tool {

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

}  // namespace fa::tool
