// Comparing accesses to global memory.
#include "check/global_memory.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "check/footprint.h"

namespace fa::emu::check {
namespace {

/// The one address that all lanes of the access name; 0 where they differ.
uint64_t common_address(const Access &access) {
  uint64_t first = access.address[std::countr_zero(access.mask)];
  for (uint32_t rest = access.mask; rest; rest &= rest - 1)
    if (access.address[std::countr_zero(rest)] != first) return 0;
  return first;
}

bool covers(const ClusterClocks &known, const GlobalEpoch &epoch) {
  auto found = known.find(epoch.cluster);
  return found != known.end() && epoch.cluster_clock <= found->second;
}

/// f(address) for each address that lanes of the access name: flags.
template <class F>
void each_flag(const Accessor &who, const Access &access, F &&f) {
  if (uint64_t flag = common_address(access)) return f(flag);
  // Relaxed additions of lanes to many addresses are not meant to order anything.
  if (access.kind == AccessKind::atomic && !who.properties->acquires && !who.properties->releases) return;
  for (uint32_t rest = access.mask; rest; rest &= rest - 1) f(access.address[std::countr_zero(rest)]);
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
      epoch.lane = static_cast<uint8_t>((epoch.lane + (offset >> epoch.share)) & 31);
      if (granule <= 1u << epoch.share) epoch.share = whole_cell;
    };
    finer[i] = cells[i / parts];
    narrow(finer[i].write);
    for (GlobalEpoch &read : finer[i].reads) narrow(read);
  }
  cells = std::move(finer);
}

Footprint GlobalShadow::take() {
  Footprint result;
  for (Shard &shard : shards_) {
    for (auto &[number, page] : shard.pages) result.pages.emplace_back(number, std::move(page));
    for (const auto &[flag, knowledge] : shard.released) result.released.push_back(flag);
    result.acquired.insert(result.acquired.end(), shard.waited_for.begin(), shard.waited_for.end());
    shard.pages.clear();
  }
  std::sort(result.pages.begin(), result.pages.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  std::sort(result.released.begin(), result.released.end());
  std::sort(result.acquired.begin(), result.acquired.end());
  return result;
}

void GlobalMemory::use_map(const Accessor &who) {
  const uint64_t address = who.access->address[std::countr_zero(who.access->mask)];
  const uint32_t offset = static_cast<uint32_t>(address % GlobalShadow::page_bytes);
  const uint32_t bytes = std::min(who.access->bytes, static_cast<uint32_t>(GlobalShadow::page_bytes) - offset);
  const auto seen = maps_.find(who.agent / warps_per_cta_);
  GlobalShadow::Held held(shadow_);
  for (const GlobalCell *cell : held.page(address / GlobalShadow::page_bytes).cells_of(offset, bytes)) {
    const GlobalEpoch &write = cell->write;
    if (write.cluster == 0 || (seen != maps_.end() && covers(seen->second, write))) continue;
    shadow_.reporter.report(Violation::missing_proxy_fence, *who.warp, who.pc, write.pc, -1, [&] {
      return "a copy goes by a tensor map that " + shadow_.reporter.line(write.pc) +
             " has changed, without a fence.proxy.tensormap::generic.acquire by its block since";
    });
    return;
  }
}

void GlobalMemory::access(Accessor who, const Access &access) {
  bool reads = access.kind == AccessKind::read || access.kind == AccessKind::async_issue_read;
  bool writes = access.kind == AccessKind::write || access.kind == AccessKind::async_issue_write;
  bool updates = access.kind == AccessKind::atomic;
  if (access.kind == AccessKind::async_land) return land(access);
  if (!reads && !writes && !updates) return;
  const bool strong = who.properties->scope != Scope::none;
  if (strong && !writes) each_flag(who, access, [&](uint64_t flag) { acquire(who, flag); });
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
  if (strong && !reads) each_flag(who, access, [&](uint64_t flag) { release(who, access.mask, flag); });
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

GlobalEpoch GlobalMemory::now(const Accessor &who) {
  return {cluster_,
          clock_,
          clocks_.now(who.agent),
          who.pc,
          static_cast<uint16_t>(who.agent),
          static_cast<uint8_t>(who.lane & 31),
          dependent_ && is_early(who.agent),
          static_cast<uint8_t>(static_cast<uint8_t>(who.properties->scope) & 3),
          who.access->async_proxy,
          who.access->kind == AccessKind::async_issue_write,
          whole_cell};
}

/// The narrowest scope that holds a warp of this cluster and the other access.
Scope GlobalMemory::min_scope(const GlobalEpoch &other, uint32_t agent) const {
  if (other.cluster != cluster_) return Scope::gpu;
  return other.agent / warps_per_cta_ == agent / warps_per_cta_ ? Scope::cta : Scope::cluster;
}

/// Two strong accesses, each of a scope that holds both, are no race.
bool GlobalMemory::both_strong(const GlobalEpoch &other, uint32_t agent, uint8_t scope) const {
  if (other.scope == 0 || scope == 0) return false;
  return std::min(other.scope, scope) >= static_cast<uint8_t>(min_scope(other, agent));
}

bool GlobalMemory::knows(const Accessor &who, const GlobalEpoch &epoch) const {
  if (epoch.cluster == 0 || both_strong(epoch, who.agent, static_cast<uint8_t>(who.properties->scope))) return true;
  if (epoch.cluster == cluster_) return clocks_.knows(who.agent, who.lane, epoch.agent, 1u << epoch.lane, epoch.clock);
  return covers(known_.known, epoch);
}

/// Of a write that comes before: whether the async proxy may not see it yet.
bool GlobalMemory::unfenced(const Accessor &who, const GlobalEpoch &write) const {
  return who.access->async_proxy && write.cluster != 0 && !write.async && !covers(known_.fenced, write);
}

/// Reads that need more than order of the write before them.
void GlobalMemory::check_source(const Accessor &who, const GlobalEpoch &write, uint64_t address) {
  const auto describe = [&](const char *does, const char *lacks) {
    char place[32];
    std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(address));
    return std::string(does) + " global memory at " + place + ", which " + shadow_.reporter.line(write.pc) + " wrote" +
           lacks;
  };
  if (who.properties->constant && write.cluster != 0)
    shadow_.reporter.report(Violation::constant_written, *who.warp, who.pc, write.pc, static_cast<int>(who.lane), [&] {
      return describe("reads by ld.global.nc",
                      " in the same kernel: .nc is for data that nothing writes while it runs");
    });
  if (unfenced(who, write) && knows(who, write))
    shadow_.reporter.report(Violation::missing_proxy_fence, *who.warp, who.pc, write.pc, static_cast<int>(who.lane),
                            [&] { return describe("the async proxy reads", ", without a fence.proxy.async between"); });
}

/// A bulk store is over: who waits for it knows.
void GlobalMemory::land(const Access &access) {
  GlobalShadow::Held held(shadow_);
  const uint64_t begin = access.address[std::countr_zero(access.mask)], end = begin + access.bytes;
  for (uint64_t address = begin; address < end;) {
    constexpr uint64_t page_bytes = GlobalShadow::page_bytes;
    const uint64_t part_end = std::min(end, (address / page_bytes + 1) * page_bytes);
    held.page(address / page_bytes)
        .visit(static_cast<uint32_t>(address % page_bytes), static_cast<uint32_t>(part_end - address),
               [&](GlobalCell &cell) {
                 if (cell.write.cluster == cluster_) cell.write.pending = false;
               });
    address = part_end;
  }
}

/// Memory that a bulk store writes may not be touched before it is waited for, not even by its thread.
void GlobalMemory::check_pending(const Accessor &who, GlobalCell &cell, uint64_t address, const char *does) {
  if (!cell.write.pending || !knows(who, cell.write)) return;
  shadow_.reporter.report(Violation::pending_copy, *who.warp, who.pc, cell.write.pc, static_cast<int>(who.lane), [&] {
    char place[32];
    std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(address));
    return std::string(does) + " global memory at " + place + ", which the bulk copy of " +
           shadow_.reporter.line(cell.write.pc) + " still writes: nothing has waited for it";
  });
}

void GlobalMemory::read(const Accessor &who, GlobalCell &cell, uint64_t address) {
  check_pending(who, cell, address, "reads");
  if (!knows(who, cell.write)) conflict(who, cell.write, address, "reads", "wrote");
  check_source(who, cell.write, address);
  GlobalEpoch epoch = now(who);
  for (GlobalEpoch &slot : cell.reads) {
    bool own = slot.cluster == cluster_ && slot.agent == epoch.agent && slot.lane == epoch.lane;
    if (!own && !knows(who, slot)) continue;
    epoch.early |= own && slot.early;
    slot = epoch;
    return;
  }
}

void GlobalMemory::write(const Accessor &who, GlobalCell &cell, uint64_t address) {
  const GlobalEpoch &last = cell.write;
  check_pending(who, cell, address, "writes");
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
