// bar and barrier: sync, arrive, red; bar.warp.sync.
#include "exec/barrier.h"

#include "exec/access.h"
#include "exec/cluster_barrier.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/launch.h"

namespace fa::emu {
namespace {

using ptx::Type;

enum Kind : uint16_t { sync, arrive, popc, logic_and, logic_or };

uint64_t key_of(const Barrier &barrier) {
  return reinterpret_cast<uint64_t>(&barrier);
}

bool complete(Cta &cta, Barrier &barrier) {
  if (barrier.arrived == 0) return false;
  uint32_t expected = barrier.expected ? barrier.expected : (cta.threads_alive() + lanes - 1) / lanes * lanes;
  if (barrier.arrived < expected) return false;
  for (int i = 0; i < 3; i++) barrier.result[i] = barrier.reduction[i];
  barrier.arrived = barrier.expected = 0;
  barrier.phase++;
  auto waiting = std::move(barrier.waiting);
  barrier.waiting.clear();
  Observer *observer = cta.cluster->observer.get();
  for (const Barrier::Waiting &one : waiting) {
    if (observer) {
      observer->acquire(*one.warp, one.mask, key_of(barrier));
      observer->lanes_meet(*one.warp, one.mask);
    }
    if (one.predicate) *one.predicate = (*one.predicate & ~one.mask) | (barrier.result[one.kind] ? one.mask : 0);
    if (one.count)
      for (uint32_t lane = 0; lane < lanes; lane++)
        if (one.mask >> lane & 1) one.count[lane] = barrier.result[0];
    if (one.warp->group_count) one.warp->wake(one.mask);
  }
  cta.cluster->events++;
  return true;
}

/// a: the barrier's number, b: threads that take part, where given. c: the predicate of a reduction.
void arrive_at(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Cta &cta = *warp.cta;
  uint32_t first = static_cast<uint32_t>(__builtin_ctz(mask));
  uint32_t number = warp.row<uint32_t>(instruction.a)[first];
  uint32_t expected = instruction.b.exists() ? warp.row<uint32_t>(instruction.b)[first] : 0;
  if (number > 15)
    fault(warp, instruction, FaultKind::illegal_instruction, -1, "barrier " + std::to_string(number) + " of 0 to 15");
  if (expected % lanes != 0)
    fault(warp, instruction, FaultKind::illegal_instruction, -1,
          "a barrier of " + std::to_string(expected) + " threads, which is not a multiple of 32");
  Barrier &barrier = cta.state<Barriers>().barrier[number];
  if (barrier.arrived != 0 && barrier.expected != expected)
    fault(warp, instruction, FaultKind::illegal_instruction, -1,
          "barrier " + std::to_string(number) + " is awaited for " + std::to_string(expected) + " threads, and for " +
              std::to_string(barrier.expected) + " by those who came before (0: all)");
  if (barrier.arrived == 0) {
    barrier.reduction[0] = barrier.reduction[2] = 0;
    barrier.reduction[1] = 1;
  }
  // Whole warps count: lanes that have exited are taken as arrived.
  barrier.arrived += mask == warp.live ? lanes : static_cast<uint32_t>(__builtin_popcount(mask));
  barrier.expected = expected;
  Barrier::Waiting waiting{&warp, mask, nullptr, nullptr, 0};
  if (instruction.detail >= popc) {
    uint32_t votes = (*warp.row<uint32_t>(instruction.c) ^ (instruction.imm ? all_lanes : 0)) & mask;
    barrier.reduction[0] += static_cast<uint32_t>(__builtin_popcount(votes));
    barrier.reduction[1] &= votes == mask;
    barrier.reduction[2] |= votes != 0;
    waiting.kind = instruction.detail - popc;
    if (instruction.detail == popc)
      waiting.count = warp.row<uint32_t>(instruction.dst);
    else
      waiting.predicate = warp.row<uint32_t>(instruction.dst);
  }
  if (Observer *observer = cta.cluster->observer.get()) observer->release(warp, mask, key_of(barrier));
  if (instruction.detail == arrive) {
    complete(cta, barrier);
    return;
  }
  barrier.waiting.push_back(waiting);
  // The group that completes the barrier goes on at once: wake finds it not blocked.
  if (!complete(cta, barrier)) warp.pause = Pause::blocked;
}

void warp_sync(Warp &warp, const Instruction &, uint32_t mask) {
  if (Observer *observer = warp.cta->cluster->observer.get()) observer->lanes_meet(warp, mask);
}

bool decode_warp_sync(Decoder &d) {
  d.expect_operands(1, 1);
  d.converge_members(d.operand(0));
  d.out().joins_anywhere = true;
  return d.run(warp_sync);
}

bool decode_bar(Decoder &d) {
  if (d.has("cluster")) return false;
  if (d.has("warp")) return decode_warp_sync(d);
  Instruction &out = d.out();
  bool red = d.has("red");
  size_t at = 0;
  if (red) {
    out.detail = d.has("popc") ? popc : d.has("and") ? logic_and : logic_or;
    out.dst = d.destination(at++, out.detail == popc ? Type::b32 : Type::pred);
  } else {
    out.detail = d.has("arrive") ? arrive : sync;
  }
  out.a = d.source(at++, Type::b32);
  size_t left = d.count() - at - (red ? 1 : 0);
  if (left > 1) d.fail("a barrier with too many operands");
  if (left == 1) out.b = d.source(at++, Type::b32);
  if (red) {
    out.imm = d.operand(at).negated;
    out.c = d.source(at, Type::pred);
  }
  // barrier without .aligned lets the lanes of a warp arrive one by one.
  bool aligned = d.opcode().name == "bar" || d.has("aligned");
  if (aligned) d.converge_warp();
  d.pausing();
  return d.run(arrive_at);
}

const Registration registration{{"bar", decode_bar}, {"barrier", decode_bar}};

}  // namespace

void threads_left(Cta &cta) {
  for (Barrier &barrier : cta.state<Barriers>().barrier)
    if (barrier.arrived != 0 && barrier.expected == 0) complete(cta, barrier);
  complete_cluster_barrier(*cta.cluster);
}

}  // namespace fa::emu
