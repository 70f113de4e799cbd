// Chooses among s, ms, us and ns.
#include "units.h"

#include <fmt/format.h>

namespace fa::tool {

std::string seconds_text(double seconds) {
  struct Unit {
    double seconds;
    const char *name;
  };
  for (const Unit unit : {Unit{1, "s"}, Unit{1e-3, "ms"}, Unit{1e-6, "us"}}) {
    const double value = seconds / unit.seconds;
    if (value >= 0.9995) return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, unit.name);
  }
  return fmt::format("{:.0f} ns", seconds * 1e9);
}

}  // namespace fa::tool
