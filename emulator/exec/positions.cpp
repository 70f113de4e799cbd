// Describes blocks in the same state once.
#include "exec/positions.h"

#include <algorithm>
#include <map>

#include "exec/cta.h"
#include "exec/launch.h"

namespace fa::emu {
namespace {

constexpr size_t max_lines = 32, max_blocks_named = 3;

std::string index_of(const BlockPosition &one) {
  return "(" + std::to_string(one.block[0]) + "," + std::to_string(one.block[1]) + "," + std::to_string(one.block[2]) +
         ")";
}

}  // namespace

std::string list_of(uint32_t mask) {
  std::string text;
  for (uint32_t first = 0; first < 32; first++) {
    if (!(mask >> first & 1)) continue;
    uint32_t last = first;
    while (last < 31 && mask >> (last + 1) & 1) last++;
    text += (text.empty() ? "" : ", ") + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
    first = last;
  }
  return text;
}

std::vector<std::string> describe(std::vector<BlockPosition> positions) {
  std::sort(positions.begin(), positions.end(),
            [](const BlockPosition &a, const BlockPosition &b) { return a.number < b.number; });
  std::map<std::string, std::vector<const BlockPosition *>> alike;
  std::vector<const std::string *> order;
  for (const BlockPosition &one : positions) {
    auto [found, added] = alike.try_emplace(one.warps);
    if (added) order.push_back(&found->first);
    found->second.push_back(&one);
  }
  std::vector<std::string> lines;
  for (const std::string *warps : order) {
    if (lines.size() == max_lines) {
      lines.push_back("... and more blocks");
      break;
    }
    const auto &blocks = alike[*warps];
    std::string line = blocks.size() == 1 ? "block " : "blocks ";
    for (size_t i = 0; i < std::min(blocks.size(), max_blocks_named); i++)
      line += (i ? ", " : "") + index_of(*blocks[i]);
    if (blocks.size() > max_blocks_named) line += " and " + std::to_string(blocks.size() - max_blocks_named) + " more";
    lines.push_back(line + ": " + *warps);
  }
  return lines;
}

void Cluster::collect_positions(std::vector<BlockPosition> &into) const {
  for (const Cta &cta : ctas) {
    std::map<std::pair<uint32_t, bool>, uint32_t> warps;  // by program counter and whether they wait there
    for (const Warp &warp : cta.warps)
      for (uint32_t g = 0; g < warp.group_count; g++) {
        const Group &group = warp.groups[g];
        bool waiting = group.state == GroupState::blocked || group.state == GroupState::parked;
        warps[{group.pc - (group.state == GroupState::blocked), waiting}] |= 1u << warp.index;
      }
    if (warps.empty()) continue;
    BlockPosition one;
    const LaunchShape &shape = launch->shape;
    one.number = cta.id[0] + uint64_t{shape.grid[0]} * (cta.id[1] + uint64_t{shape.grid[1]} * cta.id[2]);
    std::copy_n(cta.id, 3, one.block);
    for (auto [where, mask] : warps)
      one.warps += (one.warps.empty() ? "" : "; ") + std::string(mask & (mask - 1) ? "warps " : "warp ") +
                   list_of(mask) + (where.second ? (mask & (mask - 1) ? " wait" : " waits") : "") + " at " +
                   launch->program->place(where.first);
    into.push_back(std::move(one));
  }
}

}  // namespace fa::emu
