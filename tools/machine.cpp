// Reads Linux' reports of its processors. Nothing here may fail: missing values stay empty.
#include "machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "cpu/cpus.h"

namespace fa::tool {
namespace {

std::string contents(const char *path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == text.npos ? std::string() : std::string(text.substr(begin, end - begin + 1));
}

}  // namespace

std::string cpuinfo_value(const std::string &cpuinfo, const std::string &key) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != line.npos && trimmed(std::string_view(line).substr(0, colon)) == key) {
      return trimmed(std::string_view(line).substr(colon + 1));
    }
  }
  return "";
}

std::vector<std::string> isas_in(const std::string &cpuinfo) {
  static constexpr const char *known[] = {
      "avx",      "f16c",     "fma",      "avx2",        "avx_vnni",    "avx512f",
      "avx512bw", "avx512dq", "avx512vl", "avx512_bf16", "avx512_fp16", "avx512_vp2intersect",
      "amx_bf16", "amx_tile", "asimd",    "asimdhp",     "bf16",        "fphp",
      "sve",      "sve2",     "i8mm"};
  std::string flags = cpuinfo_value(cpuinfo, "flags");
  if (flags.empty()) flags = cpuinfo_value(cpuinfo, "Features");
  std::istringstream words(flags);
  const std::vector<std::string> have{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> result;
  for (const char *isa : known) {
    if (std::find(have.begin(), have.end(), isa) != have.end()) result.emplace_back(isa);
  }
  return result;
}

Machine this_machine() {
  Machine machine;
  struct utsname name = {};
  if (uname(&name) == 0) machine.system = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  const std::string cpuinfo = contents("/proc/cpuinfo");
  machine.cpu = cpuinfo_value(cpuinfo, "model name");
  if (machine.cpu.empty()) {
    const std::string part = cpuinfo_value(cpuinfo, "CPU part");  // Arm names its cores by number
    machine.cpu = part.empty()
                      ? "unknown"
                      : fmt::format("Arm implementer {} part {}", cpuinfo_value(cpuinfo, "CPU implementer"), part);
  }
  machine.isas = isas_in(cpuinfo);
  machine.cpus_online = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 0L));
  machine.cpus_usable = cpu::affinity_cpus();
  machine.cpu_quota = cpu::quota_cpus();
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) machine.memory_gib = static_cast<double>(pages) * static_cast<double>(page) / (1 << 30);
  return machine;
}

double free_memory() {
  const std::string meminfo = contents("/proc/meminfo");
  double kibibytes = 0;
  for (const char *key : {"MemAvailable", "SwapFree"}) {
    const std::string text = cpuinfo_value(meminfo, key);  // in the same form; "1234 kB"
    double value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) kibibytes += value;
  }
  return 1024 * kibibytes;
}

int32_t default_threads() {
  const char *set = std::getenv("FA_NUM_THREADS");
  const int32_t number = set ? static_cast<int32_t>(std::strtol(set, nullptr, 10)) : 0;
  return number > 0 ? number : cpu::usable_cpus();
}

size_t cold_bytes() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  size_t kibibytes = 0;
  file >> kibibytes;
  return std::max(size_t{384} << 20, 8 * kibibytes << 10);
}

}  // namespace fa::tool
