// The table of devices, and the rule for targets.
#include "driver/devices.h"

#include <charconv>

namespace fa::emu::driver {
namespace {

constexpr uint32_t kib = 1024;
constexpr uint64_t mib = 1024 * 1024;
constexpr uint64_t gib = 1024 * mib;

constexpr DeviceLimits table[] = {
    // capability, board, SMs, shared a SM / a block / reserved, threads, blocks, L2, clocks, bus, memory
    {7, 5, "Tesla T4", 40, 64 * kib, 64 * kib, 0, 1024, 16, 4 * mib, 1590000, 5001000, 256, 16 * gib},
    {8, 0, "A100-SXM4-80GB", 108, 164 * kib, 163 * kib, kib, 2048, 32, 40 * mib, 1410000, 1593000, 5120, 80 * gib},
    {8, 6, "A10", 72, 100 * kib, 99 * kib, kib, 1536, 16, 6 * mib, 1695000, 6251000, 384, 24 * gib},
    {8, 7, "Orin", 16, 164 * kib, 163 * kib, kib, 1536, 16, 4 * mib, 1300000, 1300000, 256, 32 * gib},
    {8, 8, "Orin (8.8)", 16, 100 * kib, 99 * kib, kib, 1536, 16, 4 * mib, 1300000, 1300000, 256, 32 * gib},
    {8, 9, "L4", 58, 100 * kib, 99 * kib, kib, 1536, 24, 48 * mib, 2040000, 6251000, 192, 24 * gib},
    {9, 0, "H100 80GB HBM3", 132, 228 * kib, 227 * kib, kib, 2048, 32, 50 * mib, 1980000, 2619000, 5120, 80 * gib},
    {10, 0, "B200", 148, 228 * kib, 227 * kib, kib, 2048, 32, 126 * mib, 1965000, 3996000, 8192, 180 * gib},
    {10, 3, "B300", 148, 228 * kib, 227 * kib, kib, 2048, 32, 126 * mib, 1965000, 3996000, 8192, 288 * gib},
    {11, 0, "Thor", 20, 228 * kib, 227 * kib, kib, 1536, 24, 32 * mib, 1575000, 4266000, 256, 128 * gib},
    {12, 0, "RTX 5090", 170, 100 * kib, 99 * kib, kib, 1536, 24, 96 * mib, 2407000, 14001000, 512, 32 * gib},
    {12, 1, "GB10", 48, 100 * kib, 99 * kib, kib, 1536, 24, 24 * mib, 2418000, 4266000, 256, 128 * gib},
};

/// Capability as tens and ones, and the suffix: "sm_100a" is 100 and 'a'.
std::optional<std::pair<int, char>> parse_target(std::string_view name) {
  for (std::string_view prefix : {"sm_", "compute_"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  int capability = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), capability);
  std::string_view suffix(end, static_cast<size_t>(name.data() + name.size() - end));
  if (error != std::errc() || capability < 10 || capability > 999) return {};
  if (!suffix.empty() && suffix != "a" && suffix != "f") return {};
  return std::pair{capability, suffix.empty() ? '\0' : suffix[0]};
}

}  // namespace

std::optional<DeviceLimits> limits_of(std::string_view name) {
  auto target = parse_target(name);
  if (!target) return {};
  DeviceLimits limits = table[0];
  for (const DeviceLimits &row : table)
    if (row.capability() <= target->first) limits = row;
  if (limits.capability() == target->first) return limits;
  limits.like = limits.capability();
  limits.major = target->first / 10;
  limits.minor = target->first % 10;
  return limits;
}

std::string name_of(const DeviceLimits &device) {
  if (!device.like) return std::string(device.name) + " (emulated)";
  return "unknown sm_" + std::to_string(device.capability()) + ", limits of sm_" + std::to_string(device.like) +
         " (emulated)";
}

std::string known_devices() {
  std::string text;
  for (const DeviceLimits &row : table) text += (text.empty() ? "sm_" : ", sm_") + std::to_string(row.capability());
  return text;
}

bool runs_on(std::string_view target, const DeviceLimits &device) {
  auto parsed = parse_target(target);
  if (!parsed) return false;
  auto [capability, suffix] = *parsed;
  if (suffix == 'a') return capability == device.capability();
  if (suffix == 'f') return capability / 10 == device.major && capability <= device.capability();
  return capability <= device.capability();
}

}  // namespace fa::emu::driver
