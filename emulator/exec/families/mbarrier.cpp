// mbarrier instructions (PTX ISA 9.7.13.15). A wait in vain returns false and lets others run; the program
// loops, as on the GPU.
#include "exec/mbarrier.h"

#include <cstring>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/fault.h"

namespace fa::emu {
namespace {

using ptx::Type;

enum Flag : uint16_t { drop = 1, expect = 2, no_complete = 4, relaxed = 8, parity = 16 };

/// The shared addresses of the operand; where is filled by resolve.
void resolve_barriers(Warp &warp, const Instruction &instruction, uint32_t mask, Resolved &where) {
  resolve(warp, instruction, mask, 8, 8, where);
  if (where.space != ptx::Space::shared || !where.uniform)
    fault(warp, instruction, FaultKind::illegal_address, -1, "an mbarrier outside of shared memory");
}

template <class F>
void each_lane(uint32_t mask, F f) {
  for (uint32_t rest = mask; rest; rest &= rest - 1) f(static_cast<uint32_t>(__builtin_ctz(rest)));
}

/// f(observer, lanes, key) for each barrier that these lanes name.
template <class F>
void report(Warp &warp, uint32_t mask, const Resolved &where, F f) {
  Observer *observer = warp.cta->cluster->observer.get();
  if (!observer) return;
  while (mask) {
    uint64_t key = where.address[__builtin_ctz(mask)];
    uint32_t same = mask & collect([&](uint32_t lane) { return where.address[lane] == key; });
    f(*observer, same, key);
    mask &= ~same;
  }
}

void reset(Warp &warp, const Instruction &instruction, uint32_t mask, const Resolved &where) {
  observe(warp, instruction, AccessKind::write, mask, 8, where);
  report(warp, mask, where, [](Observer &observer, uint32_t, uint64_t key) { observer.mbarrier_resets(key); });
}

/// c: the count.
template <bool observed>
void initialise(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Resolved where;
  resolve_barriers(warp, instruction, mask, where);
  if constexpr (observed) reset(warp, instruction, mask, where);
  const uint32_t *counts = warp.row<uint32_t>(instruction.c);
  each_lane(mask, [&](uint32_t lane) {
    if (counts[lane] == 0 || counts[lane] > max_mbarrier_arrivals)
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
            "an mbarrier of " + std::to_string(counts[lane]) + " arrivals; 1 to 2^20 - 1 are possible");
    uint64_t bits = Mbarrier{counts[lane], counts[lane], 0, false}.bits();
    std::memcpy(where.at[lane], &bits, sizeof bits);
  });
}

template <bool observed>
void invalidate(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Resolved where;
  resolve_barriers(warp, instruction, mask, where);
  if constexpr (observed) reset(warp, instruction, mask, where);
  each_lane(mask, [&](uint32_t lane) {
    mbarrier_at(warp, instruction, static_cast<int>(lane), static_cast<uint32_t>(where.address[lane]));
    std::memset(where.at[lane], 0, 8);
  });
}

/// dst: the state before; c: arrivals, with expect: bytes.
template <bool observed>
void arrive(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Resolved where;
  resolve_barriers(warp, instruction, mask, where);
  uint32_t flags = instruction.detail;
  if constexpr (observed) {
    observe(warp, instruction, AccessKind::atomic, mask, 8, where);
    report(warp, mask, where, [&](Observer &observer, uint32_t same, uint64_t key) {
      observer.mbarrier_arrives(warp, same, key);
      if (!(flags & relaxed)) observer.release(warp, same, key);
    });
  }
  const uint32_t *operand = warp.row<uint32_t>(instruction.c);
  uint64_t before[lanes] = {};
  each_lane(mask, [&](uint32_t lane) {
    uint32_t address = static_cast<uint32_t>(where.address[lane]), count = flags & expect ? 1 : operand[lane];
    int who = static_cast<int>(lane);
    if (flags & expect) mbarrier_expect(warp, instruction, who, address, operand[lane]);
    if (flags & no_complete && mbarrier_at(warp, instruction, who, address).pending <= count)
      fault(warp, instruction, FaultKind::illegal_instruction, who, "an arrival with .noComplete completes the phase");
    before[lane] = mbarrier_arrive(warp, instruction, who, address, count, flags & drop);
  });
  store_lanes(warp.row<uint64_t>(instruction.dst), before, mask);
}

/// c: bytes.
template <bool expecting, bool observed>
void transactions(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Resolved where;
  resolve_barriers(warp, instruction, mask, where);
  if constexpr (observed) observe(warp, instruction, AccessKind::atomic, mask, 8, where);
  const uint32_t *bytes = warp.row<uint32_t>(instruction.c);
  each_lane(mask, [&](uint32_t lane) {
    auto update = expecting ? mbarrier_expect : mbarrier_complete;
    update(warp, instruction, static_cast<int>(lane), static_cast<uint32_t>(where.address[lane]), bytes[lane]);
  });
}

/// dst: a predicate; c: a state, or with parity: the parity.
template <bool observed>
void wait(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Resolved where;
  resolve_barriers(warp, instruction, mask, where);
  uint32_t complete = 0;
  Mbarrier barrier;
  uint64_t read = ~uint64_t{0};  // where barrier comes from: the lanes of a warp mostly wait for one
  each_lane(mask, [&](uint32_t lane) {
    if (where.address[lane] != read) {
      read = where.address[lane];
      barrier = mbarrier_at(warp, instruction, static_cast<int>(lane), static_cast<uint32_t>(read));
    }
    bool phase = false;
    if (instruction.detail & parity) {
      phase = warp.row<uint32_t>(instruction.c)[lane] & 1;
    } else {
      Mbarrier then;
      if (!Mbarrier::read(warp.row<uint64_t>(instruction.c)[lane], then))
        fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
              "the state comes from no mbarrier.arrive");
      phase = then.phase;
    }
    complete |= uint32_t{barrier.phase != phase} << lane;
  });
  if constexpr (observed) {
    observe(warp, instruction, AccessKind::atomic, mask, 8, where);
    report(warp, complete, where, [&](Observer &observer, uint32_t same, uint64_t key) {
      if (!(instruction.detail & relaxed)) observer.acquire(warp, same, key);
      observer.mbarrier_passed(warp, instruction, same, key);
    });
  }
  store_predicate(warp.row<uint32_t>(instruction.dst), complete, mask);
  if (complete) warp.cta->cluster->events++;
  if (complete != mask) warp.pause = Pause::yield;
}

void pending_count(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint64_t *states = warp.row<uint64_t>(instruction.a);
  uint32_t computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    Mbarrier then;
    Mbarrier::read(states[lane], then);
    computed[lane] = then.pending;
  }
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
}

uint16_t flag(const Decoder &d, std::string_view modifier, Flag value) {
  return d.has(modifier) ? value : 0;
}

bool decode_arrive(Decoder &d, bool dropping) {
  d.expect_operands(2, 3);
  Instruction &out = d.out();
  out.detail = static_cast<uint16_t>((dropping ? drop : 0) | flag(d, "expect_tx", expect) |
                                     flag(d, "noComplete", no_complete) | flag(d, "relaxed", relaxed));
  if (out.detail & (expect | no_complete)) d.expect_operands(3, 3);
  d.address(1);
  out.c = d.count() == 3 ? d.source(2, Type::u32) : d.constant(1, 4);
  out.dst = d.destination(0, Type::b64);
  return d.run(arrive<false>, arrive<true>);
}

bool decode_wait(Decoder &d) {
  d.expect_operands(3, 4);
  bool by_parity = d.has("parity");
  d.out().detail = static_cast<uint16_t>((by_parity ? parity : 0) | flag(d, "relaxed", relaxed));
  d.address(1);
  d.out().c = d.source(2, by_parity ? Type::u32 : Type::b64);
  d.out().dst = d.destination(0, Type::pred);
  d.pausing();
  return d.run(wait<false>, wait<true>);
}

bool decode_mbarrier(Decoder &d) {
  if (d.type() != Type::b64) return false;
  if (d.has("arrive") || d.has("arrive_drop")) return decode_arrive(d, d.has("arrive_drop"));
  if (d.has("test_wait") || d.has("try_wait")) return decode_wait(d);
  if (d.has("pending_count")) {
    d.expect_operands(2, 2);
    d.out().a = d.source(1, Type::b64);
    d.out().dst = d.destination(0, Type::u32);
    return d.run(pending_count);
  }
  bool inval = d.has("inval");
  d.expect_operands(inval ? 1 : 2, inval ? 1 : 2);
  d.address(0);
  if (inval) return d.run(invalidate<false>, invalidate<true>);
  d.out().c = d.source(1, Type::u32);
  if (d.has("init")) return d.run(initialise<false>, initialise<true>);
  if (d.has("expect_tx")) return d.run(transactions<true, false>, transactions<true, true>);
  if (d.has("complete_tx")) return d.run(transactions<false, false>, transactions<false, true>);
  return false;
}

const Registration registration{{"mbarrier", decode_mbarrier}};

}  // namespace
}  // namespace fa::emu
