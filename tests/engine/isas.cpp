// kernels.*, continued: the available kernels of the CPU agree with Linux's description of it. Every suite skips a
// kernel that calls itself unavailable, so that one that does so wrongly would be tested by none of them.
#include <fa.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "engine/target.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

/// The flags of the first CPU of /proc/cpuinfo: "flags" of x86, "Features" of ARM.
std::set<std::string> flags_of_the_cpu() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

/// Linux's names of the instructions that each kernel needs.
const std::map<std::string, std::set<std::string>> needed = {
    {"avx2", {"avx2", "fma", "f16c"}},
    {"avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}},
    {"avx512_bf16", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16"}},
    {"amx_bf16", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16", "amx_tile", "amx_bf16"}},
    {"amx_bf16x2", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16", "amx_tile", "amx_bf16"}},
    {"neon", {"asimd"}},
    {"generic", {}},
};

TEST(Kernels, OfTheCpuAreAvailableWhereLinuxSaysSo) {
  if (emulated) GTEST_SKIP() << "Linux knows the machine, not the emulated CPU";
  const std::set<std::string> flags = flags_of_the_cpu();
  ASSERT_FALSE(flags.empty()) << "/proc/cpuinfo has no flags";
  int found = 0;
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(fa_kernel_info(i, &info), FA_OK);
    if (std::string(info.device) != "cpu") continue;
    ASSERT_EQ(needed.count(info.arch), 1u) << info.name;
    const std::set<std::string> &flags_needed = needed.at(info.arch);
    const bool there = std::includes(flags.begin(), flags.end(), flags_needed.begin(), flags_needed.end());
    EXPECT_EQ(bool(info.available), there)
        << info.name << ": " << (info.unavailable_reason ? info.unavailable_reason : "");
    ++found;
  }
  EXPECT_GE(found, 2) << "generic, and at least one for this architecture";
}

TEST(Kernels, ConsecutiveTargetsRunEveryCaseOnce) {
  for (uint64_t shards = 1; shards <= 8; ++shards) {
    for (uint64_t first = 0; first < 16; ++first) {
      for (uint64_t number = 0; number < 100; ++number) {
        uint64_t runs = 0;
        for (uint64_t target = first; target < first + shards; ++target) runs += shard_has(target, number, shards);
        EXPECT_EQ(runs, 1u) << "case " << number << " of " << shards << " targets from " << first << " on";
      }
    }
  }
}

}  // namespace
}  // namespace test
