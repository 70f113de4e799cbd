// Reports of launches.
#include "driver/report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "driver/settings.h"

namespace fa::emu::driver {
namespace {

constexpr size_t longest_mix = 40;

void print_counts(const Launch &launch) {
  std::map<std::string_view, ExecutionCount> mix;
  ExecutionCount total;
  for (uint32_t pc = 0; pc < launch.counts.size(); pc++) {
    const ExecutionCount &count = launch.counts[pc];
    if (count.warps == 0) continue;
    ExecutionCount &sum = mix[launch.program->opcode(pc)];
    for (ExecutionCount *into : {&sum, &total}) {
      into->warps += count.warps;
      into->lanes += count.lanes;
    }
  }
  std::fprintf(stderr, "fa-emu: %s: %.6f s, %llu warp instructions, %llu thread instructions, %.1f M/s\n",
               launch.program->name.c_str(), launch.seconds, static_cast<unsigned long long>(total.warps),
               static_cast<unsigned long long>(total.lanes), static_cast<double>(total.lanes) / launch.seconds / 1e6);
  std::vector<std::pair<std::string_view, ExecutionCount>> sorted(mix.begin(), mix.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.second.warps > b.second.warps; });
  for (size_t i = 0; i < std::min(sorted.size(), longest_mix); i++)
    std::fprintf(stderr, "fa-emu:   %10llu  %.*s\n", static_cast<unsigned long long>(sorted[i].second.warps),
                 static_cast<int>(sorted[i].first.size()), sorted[i].first.data());
}

}  // namespace

void report(const Launch &launch, const std::optional<Fault> &) {
  if (settings().report) print_counts(launch);
  if (settings().quiet) return;
  for (const Fault &found : launch.reports) std::fprintf(stderr, "fa-emu: %s\n", found.what().c_str());
}

}  // namespace fa::emu::driver
