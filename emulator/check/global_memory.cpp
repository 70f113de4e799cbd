// Comparing accesses to global memory.
#include "check/global_memory.h"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace fa::emu::check {
namespace {

void join(ClusterClocks &into, const ClusterClocks &from) {
  for (auto [cluster, clock] : from) {
    uint32_t &known = into[cluster];
    known = std::max(known, clock);
  }
}

/// The one address that all lanes of the access name; 0 where they differ.
uint64_t common_address(const Access &access) {
  uint64_t first = access.address[std::countr_zero(access.mask)];
  for (uint32_t rest = access.mask; rest; rest &= rest - 1)
    if (access.address[std::countr_zero(rest)] != first) return 0;
  return first;
}

}  // namespace

void GlobalShadow::Page::refine() {
  uint32_t parts = granule == 16 ? 4 : 2;
  std::vector<GlobalCell> finer(cells.size() * parts);
  granule /= parts;
  for (size_t i = 0; i < finer.size(); i++) {
    const uint32_t offset = static_cast<uint32_t>(i % parts) * granule;
    const auto narrow = [&](GlobalEpoch &epoch) {
      if (epoch.share == whole_cell) return;
      epoch.lane = static_cast<uint8_t>(epoch.lane + (offset >> epoch.share));
      if (granule <= 1u << epoch.share) epoch.share = whole_cell;
    };
    finer[i] = cells[i / parts];
    narrow(finer[i].write);
    for (GlobalEpoch &read : finer[i].reads) narrow(read);
  }
  cells = std::move(finer);
}

void GlobalShadow::release(uint64_t address, const ClusterClocks &known) {
  Shard &shard = shards_[address / page_bytes % shards_.size()];
  std::lock_guard lock(shard.mutex);
  join(shard.released[address], known);
}

void GlobalShadow::acquire(uint64_t address, ClusterClocks &known) {
  Shard &shard = shards_[address / page_bytes % shards_.size()];
  std::lock_guard lock(shard.mutex);
  auto found = shard.released.find(address);
  if (found != shard.released.end()) join(known, found->second);
}

void GlobalMemory::begin(const Cluster &cluster) {
  cluster_ = static_cast<uint32_t>(cluster.number) + 1;
  clock_ = 1;
  warps_per_cta_ = static_cast<uint32_t>(cluster.ctas[0].warps.size());
  known_.clear();
}

void GlobalMemory::access(Accessor who, const Access &access) {
  bool reads = access.kind == AccessKind::read || access.kind == AccessKind::async_issue_read;
  bool writes = access.kind == AccessKind::write || access.kind == AccessKind::async_issue_write;
  bool updates = access.kind == AccessKind::atomic;
  if (!reads && !writes && !updates) return;
  // Communication goes through one address: additions of lanes to many addresses are not meant to order anything.
  uint64_t flag = who.strong ? common_address(access) : 0;
  if (flag && !writes) {
    clocks_.acquire(who.agent, flag);
    shadow_.acquire(flag, known_);
  }
  {
    const Clocks::View view = clocks_.view(who.agent);
    GlobalShadow::Held held(shadow_);
    for (uint32_t left = access.mask; left;) {
      const Lanes lanes = together(access, left, static_cast<uint32_t>(std::countr_zero(left)));
      const uint32_t mask = static_cast<uint32_t>(((uint64_t{1} << lanes.count) - 1) << lanes.first);
      left &= ~mask;
      who.lane = lanes.first;
      if (access_together(view, who, access, lanes, held)) continue;
      for (; who.lane < lanes.first + lanes.count; who.lane++) access_alone(who, access, held);
    }
  }
  if (!flag || reads) return;
  clocks_.release(who.agent, access.mask, who.warp->live, flag);
  known_[cluster_] = clock_++;
  shadow_.release(flag, known_);
}

/// Through the rules for each cell, which report.
void GlobalMemory::access_alone(const Accessor &who, const Access &access, GlobalShadow::Held &held) {
  constexpr uint64_t page_bytes = GlobalShadow::page_bytes;
  const bool reads = access.kind == AccessKind::read || access.kind == AccessKind::async_issue_read;
  uint64_t address = access.address[who.lane], end = address + access.bytes;
  while (address < end) {
    uint64_t part_end = std::min(end, (address / page_bytes + 1) * page_bytes);
    held.page(address / page_bytes)
        .visit(static_cast<uint32_t>(address % page_bytes), static_cast<uint32_t>(part_end - address),
               [&](GlobalCell &cell) { reads ? read(who, cell, address) : write(who, cell, address); });
    address = part_end;
  }
}

GlobalEpoch GlobalMemory::now(const Accessor &who) const {
  return {cluster_,
          clock_,
          clocks_.now(who.agent),
          who.pc,
          static_cast<uint16_t>(who.agent),
          static_cast<uint8_t>(who.lane),
          who.strong,
          whole_cell};
}

bool GlobalMemory::knows(const Accessor &who, const GlobalEpoch &epoch) const {
  if (epoch.cluster == 0 || (epoch.strong && who.strong)) return true;
  if (epoch.cluster == cluster_) return clocks_.knows(who.agent, who.lane, epoch.agent, 1u << epoch.lane, epoch.clock);
  if (known_.empty()) return false;
  auto found = known_.find(epoch.cluster);
  return found != known_.end() && epoch.cluster_clock <= found->second;
}

void GlobalMemory::read(const Accessor &who, GlobalCell &cell, uint64_t address) {
  if (!knows(who, cell.write)) conflict(who, cell.write, address, "reads", "wrote");
  GlobalEpoch epoch = now(who);
  for (GlobalEpoch &slot : cell.reads) {
    bool own = slot.cluster == cluster_ && slot.agent == epoch.agent && slot.lane == epoch.lane;
    if (!own && !knows(who, slot)) continue;
    slot = epoch;
    return;
  }
}

void GlobalMemory::write(const Accessor &who, GlobalCell &cell, uint64_t address) {
  const GlobalEpoch &last = cell.write;
  // One instruction may write a place from several lanes.
  bool same = last.cluster == cluster_ && last.agent == who.agent && last.pc == who.pc;
  if (!same && !knows(who, last)) conflict(who, last, address, "writes", "wrote", who.stores_the_same());
  for (GlobalEpoch &reader : cell.reads) {
    bool own = reader.cluster == cluster_ && reader.agent == who.agent && reader.lane == who.lane;
    if (!own && !knows(who, reader)) conflict(who, reader, address, "writes", "read");
    reader = {};
  }
  cell.write = now(who);
}

void GlobalMemory::conflict(const Accessor &who, const GlobalEpoch &other, uint64_t address, const char *does,
                            const char *did, bool equal) {
  bool inside = other.cluster == cluster_;
  Violation kind = equal                      ? Violation::equal_values
                   : !inside                  ? Violation::grid_race
                   : other.agent == who.agent ? Violation::lane_race
                                              : Violation::race;
  shadow_.reporter.report(kind, *who.warp, who.pc, other.pc, static_cast<int>(who.lane), [&] {
    char place[32];
    std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(address));
    const Launch &launch = shadow_.reporter.launch();
    const LaunchShape &shape = launch.shape;
    uint64_t clusters[2] = {shape.grid[0] / shape.cluster[0], shape.grid[1] / shape.cluster[1]};
    uint64_t number = other.cluster - 1;
    std::string block = launch.cluster_size() == 1 ? "block " : "cluster ";
    block += "(" + std::to_string(number % clusters[0]) + "," + std::to_string(number / clusters[0] % clusters[1]) +
             "," + std::to_string(number / clusters[0] / clusters[1]) + ")";
    return std::string(does) + " global memory at " + place + ", which warp " +
           std::to_string(other.agent % warps_per_cta_) + ", lane " + std::to_string(other.lane) + " of " + block +
           " " + did + " at " + shadow_.reporter.line(other.pc) + ", with no synchronisation between" +
           (equal ? "; both store the same value" : "");
  });
}

}  // namespace fa::emu::check
