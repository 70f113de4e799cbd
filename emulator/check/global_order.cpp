// The order of accesses to global memory: the knowledge of a cluster about others, by flags, fences and prerequisites.
#include <algorithm>

#include "check/global_memory.h"

namespace fa::emu::check {
namespace {

void join_clocks(ClusterClocks &into, const ClusterClocks &from) {
  for (auto [cluster, clock] : from) {
    uint32_t &known = into[cluster];
    known = std::max(known, clock);
  }
}

/// Keys of Clocks for flags between the warps of a block, apart from those between blocks.
uint64_t key_inside(uint64_t flag, uint32_t rank) {
  return flag | uint64_t{rank + 1} << 48;
}

}  // namespace

void ClusterKnowledge::join(const ClusterKnowledge &other) {
  join_clocks(known, other.known);
  join_clocks(fenced, other.fenced);
}

void GlobalShadow::release(uint64_t address, const ClusterKnowledge &knowledge) {
  Shard &shard = shards_[address / page_bytes % shards_.size()];
  std::lock_guard lock(shard.mutex);
  shard.released[address].join(knowledge);
}

void GlobalShadow::acquire(uint64_t address, ClusterKnowledge &knowledge, bool waits) {
  Shard &shard = shards_[address / page_bytes % shards_.size()];
  std::lock_guard lock(shard.mutex);
  if (waits) shard.waited_for.insert(address);
  auto found = shard.released.find(address);
  if (found != shard.released.end()) knowledge.join(found->second);
}

void GlobalMemory::begin(const Cluster &cluster) {
  cluster_ = static_cast<uint32_t>(cluster.number) + 1;
  clock_ = 1;
  warps_per_cta_ = static_cast<uint32_t>(cluster.ctas[0].warps.size());
  known_ = {};
  fences_.clear();
  maps_.clear();
  dependent_ = cluster.ctas[0].launch->prerequisites != nullptr;
  waited_.assign(dependent_ ? warps_per_cta_ * cluster.ctas.size() : 0, false);
  waits_.clear();
}

void GlobalMemory::waits_for_prerequisites(uint32_t agent) {
  if (!dependent_ || waited_[agent]) return;
  waited_[agent] = true;
  waits_.emplace_back(agent, clocks_.now(agent));
}

bool GlobalMemory::is_early(uint32_t agent) {
  if (waited_[agent]) return false;
  for (const auto &[other, clock] : waits_)
    if (clocks_.reaches(agent, other, clock)) waited_[agent] = true;
  return !waited_[agent];
}

void GlobalMemory::acquire(const Accessor &who, uint64_t flag) {
  const uint32_t rank = who.agent / warps_per_cta_;
  const bool wide = who.properties->scope >= Scope::cluster, widest = who.properties->scope >= Scope::gpu;
  const bool waits = who.access->kind == AccessKind::read;
  if (who.properties->acquires) {
    clocks_.acquire(who.agent, key_inside(flag, rank));
    if (wide) clocks_.acquire(who.agent, flag);
    if (widest) shadow_.acquire(flag, known_, waits);
  } else {
    clocks_.acquire_at_fence(rank, key_inside(flag, rank), false);
    if (wide) clocks_.acquire_at_fence(rank, flag, true);
    if (widest) shadow_.acquire(flag, fences_[rank].read, waits);
  }
}

void GlobalMemory::release(const Accessor &who, uint32_t mask, uint64_t flag) {
  const uint32_t rank = who.agent / warps_per_cta_;
  const bool wide = who.properties->scope >= Scope::cluster, widest = who.properties->scope >= Scope::gpu;
  if (who.properties->releases) {
    clocks_.release(who.agent, mask, who.warp->live, key_inside(flag, rank));
    if (wide) clocks_.release(who.agent, mask, who.warp->live, flag);
    if (!widest) return;
    known_.known[cluster_] = clock_++;
    shadow_.release(flag, known_);
  } else {
    clocks_.release_of_fence(rank, key_inside(flag, rank), false);
    if (wide) clocks_.release_of_fence(rank, flag, true);
    auto found = fences_.find(rank);
    if (widest && found != fences_.end()) shadow_.release(flag, found->second.released);
  }
}

void GlobalMemory::fence(const Accessor &who, uint32_t mask) {
  const uint32_t rank = who.agent / warps_per_cta_;
  clocks_.fence(who.agent, mask, who.warp->live, rank, who.properties->scope >= Scope::cluster);
  if (who.properties->scope < Scope::gpu) return;
  Fences &own = fences_[rank];
  known_.join(own.read);
  own.read = {};
  known_.known[cluster_] = clock_++;
  own.released = known_;
}

void GlobalMemory::map_fence(uint32_t agent) {
  known_.known[cluster_] = clock_++;
  maps_[agent / warps_per_cta_] = known_.known;
}

void GlobalMemory::proxy_fence() {
  known_.known[cluster_] = clock_++;
  known_.fenced = known_.known;
}

}  // namespace fa::emu::check
