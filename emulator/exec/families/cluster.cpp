// Thread block clusters: mapa and getctarank (PTX ISA 9.7.9.23 and 24), barrier.cluster (9.7.13.4). Distributed shared
// memory itself needs nothing: shared addresses carry the rank of the CTA that has them.
#include <string>

#include "exec/cluster_barrier.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "memory/windows.h"

namespace fa::emu {
namespace {

using ptx::Type;

constexpr uint32_t offset_bits = (1u << memory::rank_shift) - 1;

/// a: a shared or generic address, b: the rank of a CTA. The same variable in that CTA.
template <class T>
void map_address(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *a = warp.row<T>(instruction.a);
  const uint32_t *ranks = warp.row<uint32_t>(instruction.b);
  size_t size = warp.cta->cluster->ctas.size();
  T computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    if (mask >> lane & 1 && ranks[lane] >= size)
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
            "mapa to block " + std::to_string(ranks[lane]) + " of a cluster of " + std::to_string(size));
    T window = static_cast<T>(uint64_t{a[lane]} & ~memory::offset_mask);  // of a generic address
    computed[lane] = window | (a[lane] & offset_bits) | T{ranks[lane]} << memory::rank_shift;
  }
  store_lanes(warp.row<T>(instruction.dst), computed, mask);
}

bool decode_mapa(Decoder &d) {
  d.expect_operands(3, 3);
  Type type = d.type();
  if (type != Type::u32 && type != Type::u64) return false;
  d.out().a = d.source(1, type);
  d.out().b = d.source(2, Type::u32);
  d.out().dst = d.destination(0, type);
  return d.run(type == Type::u32 ? map_address<uint32_t> : map_address<uint64_t>);
}

bool decode_getctarank(Decoder &d) {
  d.expect_operands(2, 2);
  Type type = d.type();
  if (type != Type::u32 && type != Type::u64) return false;
  d.out().a = d.source(1, type);
  d.out().dst = d.destination(0, Type::u32);
  return d.run(type == Type::u32 ? elementwise<uint32_t, uint32_t>([](uint32_t a) { return a >> memory::rank_shift; })
                                 : elementwise<uint32_t, uint64_t>(
                                       [](uint64_t a) { return static_cast<uint32_t>(a) >> memory::rank_shift; }));
}

uint64_t key_of(const Cluster &cluster) {
  return reinterpret_cast<uint64_t>(&cluster);
}

/// These lanes are past the barrier, as far as checks are concerned.
void pass(Warp &warp, uint32_t mask) {
  const Cluster &cluster = *warp.cta->cluster;
  if (!cluster.observer) return;
  cluster.observer->acquire(warp, mask, key_of(cluster));
  cluster.observer->lanes_meet(warp, mask);
}

/// detail: relaxed, nothing is released.
void arrive(Warp &warp, const Instruction &instruction, uint32_t mask) {
  auto &arrivals = warp.state<ClusterArrivals>();
  if (uint32_t twice = (arrivals.arrived | arrivals.passed) & mask)
    fault(warp, instruction, FaultKind::illegal_instruction, __builtin_ctz(twice),
          "a second barrier.cluster.arrive without a wait in between");
  arrivals.arrived |= mask;
  Cluster &cluster = *warp.cta->cluster;
  if (cluster.observer && !instruction.detail) cluster.observer->release(warp, mask, key_of(cluster));
  cluster.events++;
  complete_cluster_barrier(cluster);
}

void wait(Warp &warp, const Instruction &instruction, uint32_t mask) {
  auto &arrivals = warp.state<ClusterArrivals>();
  if (uint32_t missing = mask & ~(arrivals.arrived | arrivals.passed))
    fault(warp, instruction, FaultKind::illegal_instruction, __builtin_ctz(missing),
          "barrier.cluster.wait without an arrive before");
  if (uint32_t passing = mask & arrivals.passed) pass(warp, passing);
  arrivals.passed &= ~mask;
  arrivals.waiting |= mask & arrivals.arrived;
  if (mask & arrivals.arrived) warp.pause = Pause::blocked;
}

bool decode_barrier_cluster(Decoder &d) {
  if (!d.has("cluster")) return false;
  d.expect_operands(0, 0);
  bool arriving = d.has("arrive");
  if (!arriving && !d.has("wait")) return false;
  d.out().detail = d.has("relaxed");
  d.pausing();
  if (d.has("aligned")) d.converge_warp();
  return d.run(arriving ? arrive : wait);
}

/// fence.mbarrier_init.release.cluster: earlier accesses are released to those who pass a barrier of the cluster behind
/// it, although its arrivals may be relaxed. PTX promises that of mbarriers that were made; the rest is let through.
void mbarrier_init_fence(Warp &warp, const Instruction &, uint32_t mask) {
  const Cluster &cluster = *warp.cta->cluster;
  if (cluster.observer) cluster.observer->release(warp, mask, key_of(cluster));
}

bool decode_fence(Decoder &d) {
  if (!d.has("mbarrier_init")) return false;
  d.expect_operands(0, 0);
  return d.run(mbarrier_init_fence);
}

const Registration registration{{"mapa", decode_mapa},
                                {"getctarank", decode_getctarank},
                                {"barrier", decode_barrier_cluster},
                                {"fence", decode_fence}};

}  // namespace

void complete_cluster_barrier(Cluster &cluster) {
  bool anyone = false;
  for (Cta &cta : cluster.ctas)
    for (Warp &warp : cta.warps) {
      uint32_t arrived = warp.state<ClusterArrivals>().arrived;
      if (warp.live & ~arrived) return;
      anyone |= arrived != 0;
    }
  if (!anyone) return;
  for (Cta &cta : cluster.ctas)
    for (Warp &warp : cta.warps) {
      auto &arrivals = warp.state<ClusterArrivals>();
      uint32_t waiting = arrivals.waiting;
      arrivals.passed = arrivals.arrived & ~waiting & warp.live;
      arrivals.arrived = arrivals.waiting = 0;
      if (!waiting) continue;
      pass(warp, waiting);
      if (warp.group_count) warp.wake(waiting);
    }
  cluster.events++;
}

}  // namespace fa::emu
