// cp.async.bulk and cp.reduce.async.bulk of contiguous bytes, and bulk commit groups (PTX ISA 9.7.9.27.3 and 27.4).
#include "exec/bulk.h"

#include <cstring>
#include <string>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/reduce.h"

namespace fa::emu {
namespace {

using ptx::Space;
using ptx::Type;

/// The flags in detail and target of the instruction.
enum Flag : uint16_t {
  wide_to = 1,
  wide_from = 2,
  wide_mbarrier = 4,
  to_shared = 8,
  from_shared = 16,
  multicasting = 32,
  masked = 64,  // .cp_mask
};

class LinearCopy : public BulkOperation {
 public:
  using BulkOperation::BulkOperation;
  Space from_space = Space::global, to_space = Space::global;
  uint64_t from = 0, to = 0;          // to: of a copy to global memory
  std::vector<SharedTarget> targets;  // of one to shared memory
  uint32_t bytes = 0;
  uint16_t byte_mask = 0xffff;  // which of every 16 bytes are written
  Reduce reduce = nullptr;

  void announce() override {
    report(from_space, AccessKind::async_issue_read, from, bytes);
    // A reduction may meet others: it is reported as the atomic operation that it is.
    if (to_space == Space::global)
      report(to_space, reduce ? AccessKind::atomic : AccessKind::async_issue_write, to, bytes);
    for (const SharedTarget &target : targets)
      report(Space::shared, AccessKind::async_issue_write, target.address, bytes, target.mbarrier, reduce != nullptr);
  }

 protected:
  void gather() override {
    const uint8_t *source =
        from_space == Space::shared ? shared(static_cast<uint32_t>(from), bytes) : global(from, bytes);
    data_.assign(source, source + bytes);
    report(from_space, AccessKind::async_end_read, from, bytes, targets.empty() ? 0 : targets[0].mbarrier);
  }

  void scatter() override {
    if (to_space == Space::global) {
      write(global(to, bytes));
      if (!reduce) report(to_space, AccessKind::async_land, to, bytes);
    }
    for (const SharedTarget &target : targets) {
      write(shared(target.address, bytes));
      report(Space::shared, AccessKind::async_land, target.address, bytes, target.mbarrier, reduce != nullptr);
      complete(target.mbarrier, bytes);
    }
  }

 private:
  void write(uint8_t *destination) const {
    if (reduce) return reduce(destination, data_.data(), bytes);
    if (byte_mask == 0xffff) return std::memcpy(destination, data_.data(), bytes), void();
    for (uint32_t i = 0; i < bytes; i++)
      if (byte_mask >> i % 16 & 1) destination[i] = data_[i];
  }
};

/// list: to, from, mbarrier (a row and a displacement each), size, mask of CTAs or bytes. imm: the reduction, target:
/// its type.
void copy(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const Slot *slots = warp.list(instruction);
  uint32_t flags = instruction.detail;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    auto operation = std::make_shared<LinearCopy>(warp, instruction, lane);
    uint64_t to = listed_address(warp, slots, flags & wide_to, lane);
    operation->from = listed_address(warp, slots + 2, flags & wide_from, lane);
    if (flags & from_shared) {
      operation->from_space = Space::shared;
      operation->from = shared_address(operation->from);
    }
    operation->bytes = warp.row<uint32_t>(slots[6])[lane];
    if ((to | operation->from | operation->bytes) % 16 != 0)
      fault(warp, instruction, FaultKind::misaligned_address, static_cast<int>(lane),
            "a bulk copy needs addresses and a size that are multiples of 16");
    uint32_t extra = instruction.list_count > 7 ? warp.row<uint16_t>(slots[7])[lane] : 0;
    operation->reduce = reduce_of(static_cast<Reduction>(instruction.imm), static_cast<Type>(instruction.target));
    if (flags & masked) operation->byte_mask = static_cast<uint16_t>(extra);
    bool grouped = !(flags & to_shared);
    operation->to = to;
    if (!grouped) {
      operation->to_space = Space::shared;
      SharedTarget target{shared_address(to),
                          shared_address(listed_address(warp, slots + 4, flags & wide_mbarrier, lane))};
      operation->targets = flags & multicasting ? multicast(target, extra, false) : std::vector{target};
    }
    submit(warp, lane, std::move(operation), grouped);
  }
}

void commit(Warp &warp, const Instruction &, uint32_t mask) {
  auto &groups = warp.state<BulkGroups>();
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    size_t lane = static_cast<size_t>(__builtin_ctz(rest));
    groups.committed[lane].push_back(std::exchange(groups.open[lane], {}));
  }
}

/// imm: groups that may stay in flight; detail: only the sources must have been read.
void wait(Warp &warp, const Instruction &instruction, uint32_t mask) {
  auto &groups = warp.state<BulkGroups>();
  size_t stay = static_cast<size_t>(instruction.imm);
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    auto &committed = groups.committed[static_cast<size_t>(__builtin_ctz(rest))];
    if (instruction.detail) {
      for (size_t g = 0; g + stay < committed.size(); g++)
        for (const auto &operation : committed[g]) operation->read();
      continue;
    }
    for (; committed.size() > stay; committed.pop_front())
      for (const auto &operation : committed.front()) operation->finish();
  }
}

bool decode_linear(Decoder &d, bool reducing) {
  Instruction &out = d.out();
  bool global_first = false, shared_source = d.has("shared::cta"), found = false;
  for (std::string_view modifier : d.opcode().modifiers) {
    if (modifier != "global" && !modifier.starts_with("shared")) continue;
    if (!found) global_first = modifier == "global";
    found = true;
  }
  if (shared_source && !d.has("shared::cluster") && d.has("global")) shared_source = global_first;
  if (!global_first) out.detail |= to_shared;
  if (shared_source) out.detail |= from_shared;
  if (reducing) {
    out.imm = static_cast<int64_t>(reduction_of(d.opcode()));
    out.target = static_cast<uint32_t>(d.type());
    if (!reduce_of(static_cast<Reduction>(out.imm), d.type())) d.fail("there is no such reduction");
  }
  bool signals = !global_first;
  size_t least = signals ? 4 : 3;
  d.expect_operands(least, least + 2);
  std::vector<Slot> slots;
  if (list_address(d, 0, slots)) out.detail |= wide_to;
  if (list_address(d, 1, slots)) out.detail |= wide_from;
  if (list_address(d, signals ? std::optional<size_t>(3) : std::nullopt, slots)) out.detail |= wide_mbarrier;
  slots.push_back(d.source(2, Type::u32));
  bool casts = d.has("multicast::cluster"), masks = d.has("cp_mask");
  if (casts) out.detail |= multicasting;
  if (masks) out.detail |= masked;
  if (casts) slots.push_back(d.source(least, Type::u16));
  if (masks) slots.push_back(d.source(d.count() - 1, Type::u16));
  d.list(slots);
  return d.run(copy);
}

void nothing(Warp &, const Instruction &, uint32_t) {}

bool decode_bulk(Decoder &d) {
  if (!d.has("bulk") || d.has("tensor")) return false;
  if (d.opcode().name == "cp" && d.has("commit_group")) return d.run(commit);
  if (d.opcode().name == "cp" && d.has("wait_group")) {
    d.expect_operands(1, 1);
    d.out().imm = d.immediate(0);
    d.out().detail = d.has("read");
    return d.run(wait);
  }
  if (d.has("prefetch")) {
    d.expect_operands(2, 3);
    d.address(0);
    return d.run(nothing);
  }
  return decode_linear(d, d.has("reduce"));
}

const Registration registration{{"cp", decode_bulk}};

}  // namespace
}  // namespace fa::emu
