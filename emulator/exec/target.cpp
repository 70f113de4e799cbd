// The table. Every row was tried on ptxas 13.0 for all targets from sm_75 to sm_121a.
#include "exec/target.h"

#include <algorithm>
#include <charconv>

namespace fa::emu {
namespace {

/// Generations from `least` to `most`; of one architecture: with an a or f behind the number only.
struct Requirement {
  std::string_view name, modifier;  // modifier: empty for every form
  int least = 0, most = 0;          // most 0: and all that follow
  bool specific = false;
  const char *text = "";
};

constexpr Requirement requirements[] = {
    {"wgmma", "", 90, 90, true, "sm_90a"},
    {"tcgen05", "", 100, 119, true, "sm_100a, sm_100f, sm_103a, sm_103f, sm_110a or sm_110f"},
    {"tcgen05", "red", 103, 119, true, "sm_103a, sm_103f, sm_110a or sm_110f"},
    {"setmaxnreg", "", 90, 0, true, "sm_90a, sm_100a, sm_120a or another with an a or f"},
    {"tensormap", "replace", 90, 0, true, "sm_90a, sm_100a, sm_120a or another with an a or f"},
    {"tensormap", "swizzle_atomicity", 100, 0, true, "sm_100a, sm_120a or another of their generations with an a or f"},
    {"clusterlaunchcontrol", "", 100, 0, false, "sm_100 or later"},
    {"cp", "bulk", 90, 0, false, "sm_90 or later"},
    {"mbarrier", "try_wait", 90, 0, false, "sm_90 or later"},
    {"mapa", "", 90, 0, false, "sm_90 or later"},
    {"elect", "", 90, 0, false, "sm_90 or later"},
    {"griddepcontrol", "", 90, 0, false, "sm_90 or later"},
    {"stmatrix", "", 90, 0, false, "sm_90 or later"},
    {"barrier", "cluster", 90, 0, false, "sm_90 or later"},
    {"st", "async", 90, 0, false, "sm_90 or later"},
    {"mbarrier", "", 80, 0, false, "sm_80 or later"},
    {"cp", "async", 80, 0, false, "sm_80 or later"},
    {"redux", "", 80, 0, false, "sm_80 or later"},
    {"ldmatrix", "", 75, 0, false, "sm_75 or later"},
};

bool has(std::string_view target, const Requirement &needs) {
  int number = 0;
  const char *begin = target.data() + std::min<size_t>(3, target.size()), *end = target.data() + target.size();
  auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc()) return true;
  bool specific = rest != end;
  return number >= needs.least && (needs.most == 0 || number <= needs.most) && (specific || !needs.specific);
}

}  // namespace

std::string missing_target(const ptx::Opcode &opcode, std::string_view target) {
  for (const Requirement &needs : requirements)
    if (opcode.name == needs.name && (needs.modifier.empty() || opcode.has(needs.modifier)) && !has(target, needs))
      return needs.text;
  return {};
}

}  // namespace fa::emu
