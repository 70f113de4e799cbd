// Life of bulk operations: in flight, read, finished.
#include "exec/bulk.h"

#include <algorithm>

#include "exec/access.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/mbarrier.h"
#include "memory/windows.h"

namespace fa::emu {

void BulkOperation::read() {
  if (!std::exchange(has_read_, true)) gather();
}

void BulkOperation::finish() {
  read();
  if (std::exchange(has_written_, true)) return;
  scatter();
  data_ = {};
}

void BulkOperation::report(ptx::Space space, AccessKind kind, uint64_t address, uint32_t bytes, uint64_t key,
                           bool reduces) const {
  Observer *observer = warp_.cta->cluster->observer.get();
  if (!observer || bytes == 0) return;
  uint64_t addresses[lanes] = {};
  addresses[lane_] = address;
  Access access;
  access.space = space;
  access.kind = kind;
  access.bytes = bytes;
  access.mask = 1u << lane_;
  access.address = addresses;
  access.async_proxy = true;
  access.reduces = reduces;
  access.key = key;
  observer->access(warp_, instruction_, access);
}

uint8_t *BulkOperation::shared(uint32_t address, uint32_t bytes) const {
  return shared_at(warp_, instruction_, lane_, address, bytes);
}

uint8_t *BulkOperation::global(uint64_t address, uint64_t bytes) const {
  return global_at(warp_, instruction_, lane_, address, bytes);
}

void BulkOperation::complete(uint32_t mbarrier, uint32_t bytes) const {
  Cta &owner = warp_.cta->cluster->ctas[mbarrier >> memory::rank_shift];
  Launch &launch = *owner.launch;
  if (owner.warps_alive == 0) {
    if (launch.options.check)
      launch.findings.add(Violation::unwaited, warp_, instruction_, lane_,
                          "data that nobody waited for: its block ended while it was in flight");
    return;
  }
  mbarrier_complete(warp_, instruction_, lane_, mbarrier, bytes);
}

void BulkGroups::at_exit(Cta &cta) {
  auto look = [&](uint32_t lane, const Group &group) {
    for (const auto &operation : group) {
      if (operation->has_read()) continue;
      if (cta.launch->options.check)
        for (Warp &warp : cta.warps)
          if (&warp.state<BulkGroups>() == this)
            cta.launch->findings.add(Violation::unwaited, warp, operation->instruction(), static_cast<int>(lane),
                                     "the block ends while a bulk copy has yet to read its shared memory");
      operation->read();
    }
  };
  for (uint32_t lane = 0; lane < lanes; lane++) {
    look(lane, open[lane]);
    for (const Group &group : committed[lane]) look(lane, group);
  }
}

void submit(Warp &warp, uint32_t lane, std::shared_ptr<BulkOperation> operation, bool grouped) {
  if (warp.cta->cluster->observer) operation->announce();
  if (grouped) warp.state<BulkGroups>().open[lane].push_back(operation);
  warp.cta->cluster->async.push_back({[operation = std::move(operation)] { operation->finish(); }, 0, grouped});
}

std::vector<SharedTarget> multicast(SharedTarget target, uint32_t cta_mask, bool pairs) {
  constexpr uint32_t offset = (1u << memory::rank_shift) - 1;
  uint32_t parity = target.mbarrier >> memory::rank_shift & 1;
  std::vector<SharedTarget> targets;
  for (uint32_t rest = cta_mask; rest; rest &= rest - 1) {
    uint32_t rank = static_cast<uint32_t>(__builtin_ctz(rest));
    uint32_t signalled = pairs ? (rank & ~1u) | parity : rank;
    targets.push_back({(target.address & offset) | rank << memory::rank_shift,
                       (target.mbarrier & offset) | signalled << memory::rank_shift});
  }
  return targets;
}

bool list_address(Decoder &d, std::optional<size_t> operand, std::vector<Slot> &slots) {
  Decoder::Address address;
  if (operand) address = d.address_of(d.operand(*operand));
  slots.push_back(address.base == AddressBase::none ? d.constant(0, 8) : address.row);
  slots.push_back(d.constant(static_cast<uint64_t>(address.displacement), 8));
  return address.base != AddressBase::row32;
}

uint64_t listed_address(const Warp &warp, const Slot *slots, bool wide, uint32_t lane) {
  uint64_t displacement = warp.row<uint64_t>(slots[1])[lane];
  if (wide) return warp.row<uint64_t>(slots[0])[lane] + displacement;
  return static_cast<uint32_t>(warp.row<uint32_t>(slots[0])[lane] + displacement);
}

}  // namespace fa::emu
