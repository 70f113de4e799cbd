// cp.async of 4, 8 and 16 bytes: what a thread copies lands when a wait covers its group, no earlier, so that a missing
// wait shows in the results.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/fault.h"

namespace fa::emu {
namespace {

using ptx::Type;

struct Copy {
  uint32_t mask = 0, bytes = 0;
  std::array<uint8_t *, lanes> to;
  std::array<std::array<uint8_t, 16>, lanes> data;
};

/// Copies of a warp. A ring: storage is reused.
struct CopyGroups : State {
  std::vector<Copy> copies;  // in flight, oldest first, from done on
  size_t done = 0;
  std::deque<size_t> groups;  // end of each committed group in copies
};

void land(CopyGroups &groups, size_t end) {
  for (; groups.done < end; groups.done++) {
    const Copy &copy = groups.copies[groups.done];
    for (uint32_t rest = copy.mask; rest; rest &= rest - 1) {
      size_t lane = static_cast<size_t>(__builtin_ctz(rest));
      std::memcpy(copy.to[lane], copy.data[lane].data(), copy.bytes);
    }
  }
  if (groups.done != groups.copies.size()) return;
  groups.copies.clear();
  groups.done = 0;
  groups.groups.clear();
}

/// a, imm: destination; b, target: source and its displacement; detail: bytes; c: bytes to read, the rest is zeros.
template <bool observed>
void copy_async(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t bytes = instruction.detail;
  Resolved to, from;
  resolve(warp, instruction, mask, bytes, bytes, to);
  addresses(warp, AddressBase::row64, instruction.b, static_cast<int32_t>(instruction.target), from.address);
  uint32_t readers = mask;
  const uint32_t *sizes = instruction.c.exists() ? warp.row<uint32_t>(instruction.c) : nullptr;
  if (sizes) readers &= collect([&](uint32_t lane) { return sizes[lane] != 0; });
  if (readers) resolve(warp, instruction, ptx::Space::global, readers, bytes, bytes, from);
  if constexpr (observed) {
    observe(warp, instruction, AccessKind::async_issue_write, mask, bytes, to);
    if (readers) observe(warp, instruction, AccessKind::async_issue_read, readers, bytes, from);
  }
  Copy &copy = warp.state<CopyGroups>().copies.emplace_back();
  copy.mask = mask;
  copy.bytes = bytes;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    uint32_t size = sizes ? sizes[lane] : bytes;
    if (size > bytes)
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
            "cp.async reads " + std::to_string(size) + " bytes, more than the " + std::to_string(bytes) + " it copies");
    copy.to[lane] = to.at[lane];
    copy.data[lane] = {};
    if (size) std::memcpy(copy.data[lane].data(), from.at[lane], size);
  }
}

void commit(Warp &warp, const Instruction &, uint32_t) {
  auto &groups = warp.state<CopyGroups>();
  groups.groups.push_back(groups.copies.size());
}

/// imm: groups that may stay in flight; -1: wait_all.
void wait(Warp &warp, const Instruction &instruction, uint32_t) {
  auto &groups = warp.state<CopyGroups>();
  if (instruction.imm < 0) return land(groups, groups.copies.size());
  size_t end = groups.done;
  while (groups.groups.size() > static_cast<size_t>(instruction.imm)) {
    end = groups.groups.front();
    groups.groups.pop_front();
  }
  land(groups, std::max(end, groups.done));
}

bool decode_copy(Decoder &d) {
  if (!d.has("async") || d.has("bulk") || d.has("mbarrier")) return false;
  if (d.has("commit_group")) return d.run(commit);
  if (d.has("wait_all") || d.has("wait_group")) {
    d.out().imm = d.has("wait_all") ? -1 : d.immediate(0);
    return d.run(wait);
  }
  if (!d.has("ca") && !d.has("cg")) return false;
  d.expect_operands(3, 4);
  int64_t bytes = d.immediate(2);
  if (bytes != 4 && bytes != 8 && bytes != 16) d.fail("cp.async copies 4, 8 or 16 bytes");
  Decoder::Address from = d.address_of(d.operand(1));
  if (from.base != AddressBase::row64) d.fail("cp.async reads through a 64-bit register");
  d.address(0);
  d.out().space = ptx::Space::shared;
  d.out().b = from.row;
  d.out().target = static_cast<uint32_t>(from.displacement);
  d.out().detail = static_cast<uint16_t>(bytes);
  if (d.count() == 4) d.out().c = d.source(3, Type::u32);
  return d.run(copy_async<false>, copy_async<true>);
}

const Registration registration{{"cp", decode_copy}};

}  // namespace
}  // namespace fa::emu
