// cp.async of 4, 8 and 16 bytes (PTX ISA 9.7.9.26): a thread's copies land when a wait covers their group, or when
// the mbarrier that tracks it must complete, no earlier, so that a missing wait shows in the results.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <type_traits>
#include <vector>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/mbarrier.h"

namespace fa::emu {
namespace {

using ptx::Type;

struct Copy {
  uint32_t mask = 0;  // lanes whose copy is in flight
  uint32_t bytes = 0;
  uint32_t group = 0;  // of these lanes, the commit group that it belongs to
  std::array<uint8_t *, lanes> to;
  std::array<std::array<uint8_t, 16>, lanes> data;
  uint64_t number = 0;  // of the warp's copies
  const Instruction *instruction = nullptr;
  std::array<uint64_t, lanes> address;  // destinations, for observers
};

/// Copies of a warp in flight, oldest first. Threads commit groups on their own, most often all together.
struct Copies : State {
  std::deque<std::unique_ptr<Copy>> copies;
  std::vector<std::unique_ptr<Copy>> spare;  // storage to reuse
  std::array<uint32_t, lanes> committed{};   // groups so far, by lane
  uint64_t issued = 0;

  Copy &add() {
    if (spare.empty()) return *copies.emplace_back(std::make_unique<Copy>());
    copies.push_back(std::move(spare.back()));
    spare.pop_back();
    return *copies.back();
  }

  void at_exit(Cta &cta) override {
    if (copies.empty() || !cta.launch->options.check) return;
    for (Warp &warp : cta.warps)
      if (&warp.state<Copies>() == this)
        cta.launch->findings.add(Violation::unwaited, warp, *copies.front()->instruction,
                                 __builtin_ctz(copies.front()->mask), "a copy that nobody waited for");
  }
};

/// Lands copies; lanes_of(copy): which lanes' of it, among others.
template <class F>
void land(Copies &state, F lanes_of) {
  for (const auto &held : state.copies) {
    Copy &copy = *held;
    uint32_t landing = copy.mask & lanes_of(copy);
    auto store = [&](auto bytes) {
      for (uint32_t rest = landing; rest; rest &= rest - 1) {
        size_t lane = static_cast<size_t>(__builtin_ctz(rest));
        std::memcpy(copy.to[lane], copy.data[lane].data(), bytes);
      }
    };
    if (copy.bytes == 16)
      store(std::integral_constant<size_t, 16>{});
    else
      store(copy.bytes);
    copy.mask &= ~landing;
  }
  while (!state.copies.empty() && state.copies.front()->mask == 0) {
    state.spare.push_back(std::move(state.copies.front()));
    state.copies.pop_front();
  }
}

/// a, imm: destination; b, target: source and its displacement; detail: bytes; c: bytes to read, the rest is zeros.
/// members: where it exists, a predicate of lanes that read nothing.
template <bool observed>
void copy_async(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t bytes = instruction.detail;
  Resolved to, from;
  resolve(warp, instruction, mask, bytes, bytes, to);
  addresses(warp, AddressBase::row64, instruction.b, static_cast<int32_t>(instruction.target), from.address);
  uint32_t sizes[lanes];
  std::fill_n(sizes, lanes, bytes);
  if (instruction.c.exists()) std::copy_n(warp.row<uint32_t>(instruction.c), lanes, sizes);
  if (instruction.members.exists()) {
    uint32_t ignored = *warp.row<uint32_t>(instruction.members);
    for (uint32_t lane = 0; lane < lanes; lane++) sizes[lane] = ignored >> lane & 1 ? 0 : sizes[lane];
  }
  uint32_t readers = mask & collect([&](uint32_t lane) { return sizes[lane] != 0; });
  // The source of a lane that reads nothing may be anywhere, but aligned.
  if (readers != mask) check_alignment(warp, instruction, mask & ~readers, bytes, from.address);
  if (readers) resolve(warp, instruction, ptx::Space::global, readers, bytes, bytes, from);
  if constexpr (observed) {
    observe(warp, instruction, AccessKind::async_issue_write, mask, bytes, to);
    if (readers) observe(warp, instruction, AccessKind::async_issue_read, readers, bytes, from);
  }
  auto &state = warp.state<Copies>();
  for (uint32_t left = mask; left;) {
    uint32_t group = state.committed[static_cast<size_t>(__builtin_ctz(left))];
    uint32_t same = left & collect([&](uint32_t lane) { return state.committed[lane] == group; });
    left &= ~same;
    Copy &copy = state.add();
    copy.mask = same;
    copy.bytes = bytes;
    copy.group = group;
    copy.number = state.issued++;
    copy.instruction = &instruction;
    if constexpr (observed) std::copy_n(to.address, lanes, copy.address.begin());
    for (uint32_t rest = same; rest; rest &= rest - 1) {
      uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
      if (sizes[lane] > bytes)
        fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
              "cp.async reads " + std::to_string(sizes[lane]) + " bytes, more than the " + std::to_string(bytes) +
                  " it copies");
      copy.to[lane] = to.at[lane];
      if (sizes[lane] == 16) {
        std::memcpy(copy.data[lane].data(), from.at[lane], 16);
        continue;
      }
      copy.data[lane] = {};
      if (sizes[lane]) std::memcpy(copy.data[lane].data(), from.at[lane], sizes[lane]);
    }
  }
}

void commit(Warp &warp, const Instruction &, uint32_t mask) {
  auto &state = warp.state<Copies>();
  for (uint32_t lane = 0; lane < lanes; lane++) state.committed[lane] += mask >> lane & 1;
}

/// imm: groups that may stay in flight; -1: none, not even copies without a commit.
void wait(Warp &warp, const Instruction &instruction, uint32_t mask) {
  auto &state = warp.state<Copies>();
  if (instruction.imm < 0) return land(state, [&](const Copy &) { return mask; });
  uint32_t stay = static_cast<uint32_t>(instruction.imm);
  land(state, [&](const Copy &copy) {
    return mask & collect([&](uint32_t lane) { return copy.group + uint64_t{stay} < state.committed[lane]; });
  });
}

/// The order of a warp's promises, apart from the orders that other families use.
uint32_t order_of(const Warp &warp) {
  return 0x20000000 | warp.cta->rank << 12 | warp.index;
}

/// A promise to an mbarrier: copies of these lanes up to a number, then an arrival of each lane.
struct Promise {
  Warp &warp;
  const Instruction &instruction;
  uint32_t mask;
  uint64_t end;
  uint64_t begun = 0;  // how far the warp had come
  std::array<uint32_t, lanes> barriers{};

  void keep() const {
    Observer *observer = warp.cta->cluster->observer.get();
    land(warp.state<Copies>(), [&](const Copy &copy) {
      uint32_t landing = copy.number < end ? mask : 0;
      if (observer) report(*observer, copy, copy.mask & landing);
      return landing;
    });
    uint32_t last = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      int lane = __builtin_ctz(rest);
      const uint32_t barrier = barriers[static_cast<size_t>(lane)];
      if (observer && barrier != last) observer->signals_too(barrier, barrier, begun);
      last = barrier;
      mbarrier_arrive(warp, instruction, lane, barrier, 1);
    }
  }

  void report(Observer &observer, const Copy &copy, uint32_t left) const {
    while (left) {
      uint32_t barrier = barriers[static_cast<size_t>(__builtin_ctz(left))];
      uint32_t same = left & collect([&](uint32_t lane) { return barriers[lane] == barrier; });
      left &= ~same;
      Access access;
      access.space = ptx::Space::shared;
      access.kind = AccessKind::async_land;
      access.bytes = copy.bytes;
      access.mask = same;
      access.address = copy.address.data();
      access.key = barrier;
      observer.access(warp, *copy.instruction, access);
    }
  }
};

/// cp.async.mbarrier.arrive. detail: .noinc.
template <bool observed>
void arrive_when_landed(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Resolved where;
  resolve(warp, instruction, mask, 8, 8, where);
  if (where.space != ptx::Space::shared)
    fault(warp, instruction, FaultKind::illegal_address, -1, "an mbarrier outside of shared memory");
  if constexpr (observed) observe(warp, instruction, AccessKind::atomic, mask, 8, where);
  Promise promise{warp, instruction, mask, warp.state<Copies>().issued, 0, {}};
  for (uint32_t lane = 0; lane < lanes; lane++) {
    promise.barriers[lane] = static_cast<uint32_t>(where.address[lane]);
    if constexpr (observed)
      if (mask >> lane & 1) warp.cta->cluster->observer->mbarrier_arrives(warp, 1u << lane, promise.barriers[lane]);
    if (mask >> lane & 1 && !instruction.detail)
      mbarrier_add_pending(warp, instruction, static_cast<int>(lane), promise.barriers[lane]);
  }
  if constexpr (observed) promise.begun = warp.cta->cluster->observer->progress_mark(warp);
  // A promise is about all copies before it, those of earlier promises too: it comes after them.
  warp.cta->cluster->async.push_back({[promise] { promise.keep(); }, order_of(warp)});
}

bool decode_copy(Decoder &d) {
  if (!d.has("async") || d.has("bulk")) return false;
  if (d.has("mbarrier")) {
    if (!d.has("arrive")) return false;
    d.expect_operands(1, 1);
    d.out().detail = d.has("noinc");
    d.address(0);
    return d.run(arrive_when_landed<false>, arrive_when_landed<true>);
  }
  if (d.has("commit_group")) return d.run(commit);
  if (d.has("wait_all") || d.has("wait_group")) {
    d.out().imm = d.has("wait_all") ? -1 : d.immediate(0);
    return d.run(wait);
  }
  if (!d.has("ca") && !d.has("cg")) return false;
  d.expect_operands(3, 5);
  int64_t bytes = d.immediate(2);
  if (bytes != 4 && bytes != 8 && bytes != 16) d.fail("cp.async copies 4, 8 or 16 bytes");
  if (d.has("cg") && bytes != 16) d.fail("cp.async.cg copies 16 bytes");
  Decoder::Address from = d.wide_address_of(d.operand(1));
  d.address(0);
  d.out().space = ptx::Space::shared;
  d.out().b = from.row;
  d.out().target = static_cast<uint32_t>(from.displacement);
  d.out().detail = static_cast<uint16_t>(bytes);
  // Behind the size: bytes to read or a predicate, then a cache policy.
  size_t optional = d.count() - 3 - (d.has("L2::cache_hint") ? 1 : 0);
  if (optional > 1) d.fail("cp.async with too many operands");
  if (optional == 1) {
    const ptx::Operand &operand = d.operand(3);
    if (operand.type == Type::pred)
      d.out().members = d.source(operand, Type::pred);
    else
      d.out().c = d.source(operand, Type::u32);
  }
  return d.run(copy_async<false>, copy_async<true>);
}

const Registration registration{{"cp", decode_copy}};

}  // namespace
}  // namespace fa::emu
