// Accesses to shared memory that are plainly in order, whole cells and many lanes at once. Whatever may be a violation
// is left to the rules of shared_memory.cpp, which look at each lane and byte and report; what is remembered is the
// same.
#include "check/shared_memory.h"
#include "memory/windows.h"

namespace fa::emu::check {

/// Whether each lane's access comes after those of an epoch to the same bytes.
bool SharedMemory::in_order(const Clocks::View &view, const Lanes &lanes, uint32_t agent, uint32_t of_lanes,
                            uint32_t share, uint32_t clock) const {
  if (agent != view.agent) return view.covers(agent, of_lanes, clock);
  if (clock <= view.met) return true;
  // What it has accessed itself.
  bool own = share == lanes.share && of_lanes == lanes.mask && (share != whole_cell || std::has_single_bit(of_lanes));
  return own && !view.lanes_differ;
}

bool SharedMemory::write_in_order(const Clocks::View &view, const Lanes &lanes, const Cell &cell) const {
  if (cell.write_clock == 0) return true;
  const uint32_t count = cell.write_share == whole_cell ? 1 : 16u >> cell.write_share;
  const uint32_t writers = static_cast<uint32_t>(((uint64_t{1} << count) - 1) << cell.write_lane);
  return in_order(view, lanes, cell.write_agent, writers, cell.write_share, cell.write_clock);
}

bool SharedMemory::readers_in_order(const Clocks::View &view, const Lanes &lanes, Shadow &shadow,
                                    const Cell &cell) const {
  const auto follows = [&](const ReadEpoch &reader) {
    return reader.clock == 0 || in_order(view, lanes, reader.agent, reader.lanes, reader.share, reader.clock);
  };
  if (cell.readers == 0) return follows(cell.read);
  for (const ReadEpoch &reader : shadow.readers(cell.readers))
    if (!follows(reader)) return false;
  return true;
}

bool SharedMemory::quick_read(const Clocks::View &view, uint32_t pc, const Lanes &lanes, Shadow &shadow, Cell &cell) {
  return cell.initialised && cell.pending_writes == 0 && write_in_order(view, lanes, cell) &&
         quick_remember(view, pc, lanes, shadow, cell);
}

bool SharedMemory::quick_remember(const Clocks::View &view, uint32_t pc, const Lanes &lanes, Shadow &shadow,
                                  Cell &cell) {
  ReadEpoch epoch{view.now, lanes.mask, pc, view.agent, lanes.share & 15};
  const auto put = [&](ReadEpoch &slot) {
    slot = epoch;
    cell.shared_out |= lanes.share != whole_cell;
    return true;
  };
  /// The agent has read it before.
  const auto again = [&](ReadEpoch &slot) {
    if (slot.clock <= view.met ||
        (slot.clock != view.now && in_order(view, lanes, slot.agent, slot.lanes, slot.share, slot.clock)))
      return put(slot);
    if (slot.clock != view.now || slot.share != lanes.share) return false;
    if (lanes.share != whole_cell && slot.lanes != lanes.mask) return false;
    slot.lanes |= lanes.mask;
    slot.pc = pc;
    return true;
  };
  if (cell.readers == 0) {
    ReadEpoch &last = cell.read;
    if (last.clock == 0) return put(last);
    if (last.agent == view.agent) return again(last);
    if (view.covers(last.agent, last.lanes, last.clock)) return put(last);
    cell.readers = shadow.new_readers();
    shadow.readers(cell.readers).push_back(last);
  }
  auto &set = shadow.readers(cell.readers);
  for (ReadEpoch &slot : set)
    if (slot.agent == view.agent && slot.clock != 0) return again(slot);
  return put(set.emplace_back());
}

bool SharedMemory::quick_write(const Clocks::View &view, uint32_t pc, const Lanes &lanes, Shadow &shadow, Cell &cell) {
  if (cell.pending_writes || cell.pending_reads) return false;
  const bool same = cell.write_agent == view.agent && cell.write_pc == pc && cell.write_clock == view.now;
  if ((!same && !write_in_order(view, lanes, cell)) || !readers_in_order(view, lanes, shadow, cell)) return false;
  shadow.forget_reads(cell);
  cell.write_clock = view.now;
  cell.write_agent = view.agent;
  cell.write_lane = static_cast<uint8_t>(std::countr_zero(lanes.mask));
  cell.write_share = static_cast<uint8_t>(lanes.share);
  cell.write_pc = pc;
  cell.initialised = true;
  cell.generic = true;
  cell.atomic = false;
  cell.shared_out = lanes.share != whole_cell;
  return true;
}

bool SharedMemory::quick_issue_read(const Clocks::View &view, uint32_t pc, const Lanes &lanes, Cell &cell,
                                    bool async_proxy) {
  if (!cell.initialised || cell.pending_writes || cell.shared_out || !write_in_order(view, lanes, cell)) return false;
  const bool unfenced = async_proxy && cell.generic && cell.write_clock &&
                        !view.covers_fenced(cell.write_agent, 1u << cell.write_lane, cell.write_clock);
  if (unfenced) return false;
  cell.pending_reads++;
  cell.pending_pc = pc;
  return true;
}

bool SharedMemory::quick_issue_write(const Clocks::View &view, uint32_t pc, const Lanes &lanes, Shadow &shadow,
                                     Cell &cell) {
  if (cell.pending_writes || cell.pending_reads || cell.shared_out || !write_in_order(view, lanes, cell) ||
      !readers_in_order(view, lanes, shadow, cell))
    return false;
  shadow.forget_reads(cell);
  cell.pending_writes = 1;
  cell.pending_reduces = 0;
  cell.pending_pc = pc;
  return true;
}

bool SharedMemory::quick_land(const Clocks::View &view, uint32_t pc, const Lanes &lanes, Shadow &shadow, Cell &cell) {
  shadow.forget_reads(cell);
  cell.pending_writes = 0;
  cell.pending_reduces = 0;
  cell.write_clock = view.now;
  cell.write_agent = view.agent;
  cell.write_lane = static_cast<uint8_t>(std::countr_zero(lanes.mask));
  cell.write_share = whole_cell;
  cell.write_pc = pc;
  cell.initialised = true;
  cell.generic = false;
  cell.atomic = false;
  cell.shared_out = false;
  return true;
}

bool SharedMemory::quick_end_read(const Clocks::View &view, uint32_t pc, const Lanes &lanes, Shadow &shadow,
                                  Cell &cell) {
  if (cell.shared_out || !quick_remember(view, pc, lanes, shadow, cell)) return false;
  if (cell.pending_reads) cell.pending_reads--;
  return true;
}

bool SharedMemory::quick(const Clocks::View &view, const Accessor &who, const Access &access, const Lanes &lanes,
                         Shadow &shadow, Cell &cell) {
  if (who.strong) return false;
  switch (access.kind) {
    case AccessKind::read:
      return quick_read(view, who.pc, lanes, shadow, cell);
    case AccessKind::write:
      return quick_write(view, who.pc, lanes, shadow, cell);
    case AccessKind::atomic:
      return false;
    case AccessKind::async_issue_read:
      return quick_issue_read(view, who.pc, lanes, cell, access.async_proxy);
    case AccessKind::async_issue_write:
      return quick_issue_write(view, who.pc, lanes, shadow, cell);
    case AccessKind::async_land:
      return quick_land(view, who.pc, lanes, shadow, cell);
    case AccessKind::async_end_read:
      return quick_end_read(view, who.pc, lanes, shadow, cell);
  }
  return false;
}

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

bool SharedMemory::access_together(const Clocks::View &view, const Accessor &who, const Access &access,
                                   const Lanes &lanes, uint32_t address) {
  const uint32_t rank = address >> memory::rank_shift;
  const uint32_t offset = (address & ((1u << memory::rank_shift) - 1)) - memory::shared_begin;
  const uint32_t bytes = lanes.share == whole_cell ? access.bytes : 16;
  // As in access: it is a fault elsewhere.
  if (rank >= shadows_.size() || uint64_t{offset} + bytes > shadows_[rank].bytes()) return true;
  Shadow &shadow = shadows_[rank];
  const bool by_lane =
      access.kind == AccessKind::read || access.kind == AccessKind::write || access.kind == AccessKind::atomic;
  bool all = true;
  shadow.visit_quickly(
      offset, bytes, [&](Cell &cell) { return quick(view, who, access, lanes, shadow, cell); },
      [&](uint32_t at, uint32_t part) {
        if (by_lane)
          all = false;
        else
          this->access(who, access.kind, address + (at - offset), part, access.async_proxy, 0);
      });
  return all;
}

void SharedMemory::join_shares(uint32_t address, const Lanes &lanes) {
  const uint32_t offset = (address & ((1u << memory::rank_shift) - 1)) - memory::shared_begin;
  shadows_[address >> memory::rank_shift].join_shares(offset, static_cast<uint32_t>(std::countr_zero(lanes.mask)),
                                                      lanes.share);
}

}  // namespace fa::emu::check
