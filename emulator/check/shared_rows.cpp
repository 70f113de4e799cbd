// Accesses to shared memory that are plainly in order, whole cells and many lanes at once. Whatever may be a violation
// is left to the rules of shared_memory.cpp, which look at each lane and byte and report; the recorded state is the
// same.
#include "check/shared_memory.h"
#include "memory/windows.h"

namespace fa::emu::check {

/// The accesses of an agent's lanes to a cell; false, and nothing done, where they are not plainly in order.
class SharedMemory::Quick {
 public:
  Quick(const Clocks::View &view, uint32_t pc, uint32_t warps) : view_(view), pc_(pc), warps_(warps) {}

  void set(const Lanes &lanes, Shadow &shadow) {
    lanes_ = lanes;
    shadow_ = &shadow;
  }

  bool read(Cell &cell) {
    return cell.initialised && cell.pending_writes == 0 && write_in_order(cell) && remember(cell);
  }

  bool write(Cell &cell) {
    if (cell.pending_writes || cell.pending_reads || cell.mbarrier) return false;
    const bool same = cell.write_agent == view_.agent && cell.write_pc == pc_ && cell.write_clock == view_.now;
    if ((!same && !write_in_order(cell)) || !readers_in_order(cell)) return false;
    shadow_->forget_reads(cell);
    cell.write_clock = view_.now;
    cell.write_agent = view_.agent;
    cell.write_lane = static_cast<uint32_t>(std::countr_zero(lanes_.mask)) & 31;
    cell.write_share = lanes_.share & 7;
    cell.write_pc = pc_;
    cell.initialised = true;
    cell.generic = true;
    cell.atomic = false;
    cell.shared_out = lanes_.share != whole_cell;
    return true;
  }

  bool issue_read(Cell &cell, bool async_proxy) {
    if (!cell.initialised || cell.pending_writes || cell.shared_out || !write_in_order(cell)) return false;
    if (unfenced(cell, async_proxy)) return false;
    cell.pending_reads++;
    cell.pending_pc = pc_;
    return true;
  }

  bool issue_write(Cell &cell, bool async_proxy) {
    if (unfenced(cell, async_proxy)) return false;
    if (cell.pending_writes || cell.pending_reads || cell.mbarrier || cell.shared_out || !write_in_order(cell) ||
        !readers_in_order(cell))
      return false;
    if (async_proxy && cell.readers != 0) note_unfenced(cell);
    shadow_->forget_reads(cell);
    cell.pending_writes = 1;
    cell.pending_reduces = 0;
    cell.pending_pc = pc_;
    return true;
  }

  bool land(Cell &cell, bool async_proxy) {
    shadow_->forget_reads(cell);
    cell.pending_writes = 0;
    cell.pending_reduces = 0;
    cell.write_clock = view_.now;
    cell.write_agent = view_.agent;
    cell.write_lane = static_cast<uint32_t>(std::countr_zero(lanes_.mask)) & 31;
    cell.write_share = whole_cell;
    cell.write_pc = pc_;
    cell.initialised = true;
    cell.generic = !async_proxy;
    cell.atomic = false;
    cell.shared_out = false;
    return true;
  }

  ReadEpoch unfenced_read;  // one that issue_write has overwritten

  bool end_read(Cell &cell) {
    if (cell.shared_out || !remember(cell)) return false;
    if (cell.pending_reads) cell.pending_reads--;
    return true;
  }

 private:
  bool unfenced(const Cell &cell, bool async_proxy) const {
    return async_proxy && cell.generic && cell.write_clock &&
           !view_.covers_fenced(cell.write_agent, 1u << cell.write_lane, cell.write_clock);
  }

  /// Whether each lane's access comes after those of an epoch to the same bytes.
  bool in_order(uint32_t agent, uint32_t of_lanes, uint32_t share, uint32_t clock) const {
    if (agent != view_.agent) return view_.covers(agent, of_lanes, clock);
    if (clock <= view_.met) return true;
    // Bytes that it has accessed itself.
    bool own =
        share == lanes_.share && of_lanes == lanes_.mask && (share != whole_cell || std::has_single_bit(of_lanes));
    return own && !view_.lanes_differ;
  }

  void note_unfenced(const Cell &cell) {
    shadow_->readers().all(cell.readers, [&](const ReadEpoch &reader) {
      if (reader.agent < warps_ && !view_.covers_fenced(reader.agent, reader.lanes, reader.clock))
        unfenced_read = reader;
      return true;
    });
  }

  bool write_in_order(const Cell &cell) const {
    if (cell.write_clock == 0) return true;
    const uint32_t count = cell.write_share == whole_cell ? 1 : 16u >> cell.write_share;
    const uint32_t writers = static_cast<uint32_t>(((uint64_t{1} << count) - 1) << cell.write_lane);
    return in_order(cell.write_agent, writers, cell.write_share, cell.write_clock);
  }

  bool readers_in_order(const Cell &cell) const {
    const auto follows = [&](const ReadEpoch &reader) {
      return reader.clock == 0 || in_order(reader.agent, reader.lanes, reader.share, reader.clock);
    };
    return cell.readers == 0 || shadow_->readers().all(cell.readers, follows);
  }

  bool remember(Cell &cell) {
    ReadEpoch epoch{view_.now, lanes_.mask, pc_, view_.agent, lanes_.share & 15};
    const auto put = [&](ReadEpoch &slot) {
      slot = epoch;
      cell.shared_out |= lanes_.share != whole_cell;
      return true;
    };
    /// The agent has read it before.
    const auto again = [&](ReadEpoch &slot) {
      if (slot.clock <= view_.met ||
          (slot.clock != view_.now && in_order(slot.agent, slot.lanes, slot.share, slot.clock)))
        return put(slot);
      if (slot.clock != view_.now || slot.share != lanes_.share) return false;
      if (lanes_.share != whole_cell && slot.lanes != lanes_.mask) return false;
      slot.lanes |= lanes_.mask;
      slot.pc = pc_;
      return true;
    };
    ReaderSets &sets = shadow_->readers();
    if (cell.readers == 0) {
      cell.readers = sets.make(epoch);
      cell.shared_out |= lanes_.share != whole_cell;
      return true;
    }
    if (ReadEpoch *last = sets.only(cell.readers)) {
      if (last->agent == view_.agent) return again(*last);
      if (view_.covers(last->agent, last->lanes, last->clock)) return put(*last);
    }
    ReadEpoch &slot = sets.add(cell.readers, view_.agent);
    return slot.clock == 0 ? put(slot) : again(slot);
  }

  const Clocks::View &view_;
  const uint32_t pc_, warps_;
  Lanes lanes_;
  Shadow *shadow_ = nullptr;
};

SharedMemory::Lanes SharedMemory::together(const Access &access, uint32_t left, uint32_t lane) {
  const Lanes alone{1u << lane};
  const uint32_t first = static_cast<uint32_t>(access.address[lane]), bytes = access.bytes;
  const bool reads = access.kind == AccessKind::read;
  if (!reads && access.kind != AccessKind::write) return alone;
  const auto is_at = [&](uint32_t other, uint32_t address) {
    return other < lanes && left >> other & 1 && static_cast<uint32_t>(access.address[other]) == address;
  };
  if (reads && is_at(lane + 1, first)) {
    Lanes same = alone;
    for (uint32_t other = lane + 1; is_at(other, first); other++) same.mask |= 1u << other;
    return same;
  }
  if (first % 16 != 0 || bytes >= 16 || !std::has_single_bit(bytes)) return alone;
  const uint32_t count = 16 / bytes;
  for (uint32_t i = 1; i < count; i++)
    if (!is_at(lane + i, first + i * bytes)) return alone;
  return {((1u << count) - 1) << lane, static_cast<uint32_t>(std::countr_zero(bytes))};
}

/// The recorded state of a tile is larger than the nearest cache, and a warp's lanes wait for it together rather than
/// one after another.
void SharedMemory::prefetch(const Access &access, uint32_t agent) const {
  const auto each = [&](auto &&f) {
    const uint32_t step = access.bytes >= 16 ? 1 : access.bytes >= 4 ? 16 / access.bytes : 4;
    for (uint32_t lane = 0; lane < lanes; lane += step) {
      const uint32_t address = static_cast<uint32_t>(access.address[lane]), rank = address >> memory::rank_shift;
      if (rank < shadows_.size())
        f(shadows_[rank], (address & ((1u << memory::rank_shift) - 1)) - memory::shared_begin);
    }
  };
  each([](const Shadow &shadow, uint32_t offset) { shadow.prefetch(offset); });
  each([&](const Shadow &shadow, uint32_t offset) { shadow.prefetch_readers(offset, agent); });
}

SharedMemory::Lanes SharedMemory::access_quickly(const Clocks::View &view, Accessor who, const Access &access,
                                                 bool completes, uint32_t &left) {
  Quick quick(view, who.pc, warps_);
  const bool by_lane =
      access.kind == AccessKind::read || access.kind == AccessKind::write || access.kind == AccessKind::atomic;
  const auto each = [&](auto &&rule) {
    while (left) {
      const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
      const Lanes lanes = who.strong ? Lanes{1u << lane} : together(access, left, lane);
      left &= ~lanes.mask;
      const uint32_t address = static_cast<uint32_t>(access.address[lane]);
      const uint32_t rank = address >> memory::rank_shift;
      const uint32_t offset = (address & ((1u << memory::rank_shift) - 1)) - memory::shared_begin;
      const uint32_t bytes = lanes.share == whole_cell ? access.bytes : 16;
      // As in access: it is a fault elsewhere.
      if (rank >= shadows_.size() || uint64_t{offset} + bytes > shadows_[rank].bytes()) continue;
      quick.set(completes ? Lanes{1} : lanes, shadows_[rank]);
      who.lane = completes ? 0 : lane;
      bool all = true;
      shadows_[rank].visit_quickly(offset, bytes, rule, [&](uint32_t at, uint32_t part) {
        if (by_lane)
          all = false;
        else
          this->access(who, access.kind, address + (at - offset), part, access.async_proxy, 0);
      });
      if (!all) return lanes;
    }
    return Lanes{};
  };
  if (who.strong || (who.properties && who.properties->makes != Making::no)) return each([](Cell &) { return false; });
  switch (access.kind) {
    case AccessKind::read:
      return each([&](Cell &cell) { return quick.read(cell); });
    case AccessKind::write:
      return each([&](Cell &cell) { return quick.write(cell); });
    case AccessKind::atomic:
      return each([](Cell &) { return false; });
    case AccessKind::async_issue_read:
      return each([&](Cell &cell) { return quick.issue_read(cell, access.async_proxy); });
    case AccessKind::async_issue_write:
      each([&](Cell &cell) { return quick.issue_write(cell, access.async_proxy); });
      if (quick.unfenced_read.clock != 0)
        report_unfenced_read(who, quick.unfenced_read,
                             static_cast<uint32_t>(access.address[std::countr_zero(access.mask)]));
      return {};
    case AccessKind::async_land:
      return each([&](Cell &cell) { return quick.land(cell, access.async_proxy); });
    case AccessKind::async_end_read:
      return each([&](Cell &cell) { return quick.end_read(cell); });
  }
  return {};
}

void SharedMemory::join_shares(uint32_t address, const Lanes &lanes) {
  const uint32_t offset = (address & ((1u << memory::rank_shift) - 1)) - memory::shared_begin;
  shadows_[address >> memory::rank_shift].join_shares(offset, static_cast<uint32_t>(std::countr_zero(lanes.mask)),
                                                      lanes.share);
}

}  // namespace fa::emu::check
