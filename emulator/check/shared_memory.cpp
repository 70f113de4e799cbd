// The rules of each kind of access.
#include "check/shared_memory.h"

#include <bit>

#include "memory/windows.h"

namespace fa::emu::check {

std::string shared_place(uint32_t address) {
  uint32_t rank = address >> memory::rank_shift;
  std::string text =
      "shared memory at offset " + std::to_string((address & ((1u << memory::rank_shift) - 1)) - memory::shared_begin);
  return rank ? text + " of the cluster's block " + std::to_string(rank) : text;
}

void SharedMemory::begin(const Cluster &cluster) {
  shadows_.resize(cluster.ctas.size());
  warps_per_cta_ = static_cast<uint32_t>(cluster.ctas[0].warps.size());
  warps_ = warps_per_cta_ * static_cast<uint32_t>(cluster.ctas.size());
  for (size_t rank = 0; rank < shadows_.size(); rank++)
    shadows_[rank].begin(cluster.ctas[rank].shared_bytes, warps_per_cta_);
}

void SharedMemory::access(const Accessor &who, AccessKind kind, uint32_t address, uint32_t bytes, bool async_proxy,
                          uint64_t key) {
  uint32_t rank = address >> memory::rank_shift;
  if (rank >= shadows_.size()) return;
  Shadow &shadow = shadows_[rank];
  uint32_t offset = (address & ((1u << memory::rank_shift) - 1)) - memory::shared_begin;
  // An operand that leads out of the block's memory is a fault when it is read.
  if (uint64_t{offset} + bytes > shadow.bytes()) return;
  Accessor accessor = who;
  bool lands = kind == AccessKind::async_land || kind == AccessKind::async_end_read;
  if (lands && key != 0) accessor.agent = clocks_.complete(key), accessor.lane = 0;
  bool overwrites = kind == AccessKind::write || (kind == AccessKind::async_land && !who.strong);
  auto each = [&](auto rule) {
    shadow.visit(offset, bytes, overwrites, [&](Cell &cell, uint32_t at) { rule(cell, address - offset + at); });
  };
  switch (kind) {
    case AccessKind::read:
      return each([&](Cell &cell, uint32_t at) { read(accessor, shadow, cell, at); });
    case AccessKind::write:
    case AccessKind::atomic:
      return each([&](Cell &cell, uint32_t at) { write(accessor, shadow, cell, at); });
    case AccessKind::async_issue_read:
      return each([&](Cell &cell, uint32_t at) { issue_read(accessor, cell, at, async_proxy); });
    case AccessKind::async_issue_write:
      return each([&](Cell &cell, uint32_t at) { issue_write(accessor, shadow, cell, at, async_proxy); });
    case AccessKind::async_land:
      return each([&](Cell &cell, uint32_t) { land(accessor, shadow, cell, async_proxy); });
    case AccessKind::async_end_read:
      return each([&](Cell &cell, uint32_t) { end_read(accessor, shadow, cell); });
  }
}

bool SharedMemory::is_written(uint32_t address, uint32_t bytes) {
  bool result = true;
  Shadow &shadow = shadows_[address >> memory::rank_shift];
  uint32_t offset = (address & ((1u << memory::rank_shift) - 1)) - memory::shared_begin;
  shadow.visit(offset, bytes, false, [&](Cell &cell, uint32_t) { result &= cell.initialised; });
  return result;
}

void SharedMemory::forget(uint32_t address, uint32_t bytes) {
  Shadow &shadow = shadows_[address >> memory::rank_shift];
  uint32_t offset = (address & ((1u << memory::rank_shift) - 1)) - memory::shared_begin;
  shadow.visit(offset, bytes, false, [&](Cell &cell, uint32_t) { cell.initialised = false; });
}

void SharedMemory::read(const Accessor &who, Shadow &shadow, Cell &cell, uint32_t address) {
  check_pending(who, cell, address, false);
  if (who.unwritten != nullptr && !cell.initialised)
    *who.unwritten |= cell.pending_writes == 0;
  else
    check_written(who, cell, address, "reads");
  if (!who.strong) remember_read(who, shadow, cell);
}

void SharedMemory::write(const Accessor &who, Shadow &shadow, Cell &cell, uint32_t address) {
  check_pending(who, cell, address, true);
  check_mbarrier(who, cell, address, "writes");
  // One instruction may write a place from several lanes.
  bool same = cell.write_agent == who.agent && cell.write_pc == who.pc && cell.write_clock == clocks_.now(who.agent);
  if (cell.write_clock && !same) check_order(who, cell, address, "writes");
  check_readers(who, shadow, cell, address);
  shadow.forget_reads(cell);
  cell.write_clock = clocks_.now(who.agent);
  cell.write_agent = who.agent;
  cell.write_lane = who.lane & 31;
  cell.write_pc = who.pc;
  cell.initialised = cell.generic = true;
  cell.atomic = who.strong;
}

void SharedMemory::issue_read(const Accessor &who, Cell &cell, uint32_t address, bool async_proxy) {
  check_pending(who, cell, address, false);
  check_written(who, cell, address, "asynchronously reads");
  if (unfenced(who, cell, async_proxy)) report_unfenced(who, cell, address, "reads");
  cell.pending_reads++;
  cell.pending_pc = who.pc;
}

/// Whether the async proxy may come before a generic write.
bool SharedMemory::unfenced(const Accessor &who, const Cell &cell, bool async_proxy) const {
  return async_proxy && cell.generic && cell.write_clock &&
         !clocks_.knows_fenced(who.agent, cell.write_agent, cell.write_lane, cell.write_clock);
}

void SharedMemory::report_unfenced(const Accessor &who, const Cell &cell, uint32_t address, const char *does) {
  reporter_.report(Violation::missing_proxy_fence, *who.warp, who.pc, cell.write_pc, static_cast<int>(who.lane), [&] {
    return std::string("the async proxy ") + does + " " + shared_place(address) + ", which " +
           name_of_agent(cell.write_agent, cell.write_lane) + " wrote at " + reporter_.line(cell.write_pc) +
           ", without a fence.proxy.async between";
  });
}

void SharedMemory::report_unfenced_read(const Accessor &who, const ReadEpoch &reader, uint32_t address) {
  reporter_.report(Violation::reader_fence, *who.warp, who.pc, reader.pc, static_cast<int>(who.lane), [&] {
    return "the async proxy writes " + shared_place(address) + ", which " +
           name_of_agent(reader.agent, static_cast<uint32_t>(std::countr_zero(reader.lanes))) + " read at " +
           reporter_.line(reader.pc) + ", without a fence.proxy.async between";
  });
}

void SharedMemory::issue_write(const Accessor &who, Shadow &shadow, Cell &cell, uint32_t address, bool async_proxy) {
  check_pending(who, cell, address, true);
  check_mbarrier(who, cell, address, "asynchronously writes");
  if (who.strong)
    check_written(who, cell, address, "asynchronously reduces");
  else if (cell.write_clock)
    check_order(who, cell, address, "asynchronously writes");
  if (!who.strong && unfenced(who, cell, async_proxy)) report_unfenced(who, cell, address, "writes");
  check_readers(who, shadow, cell, address);
  const Clocks::View view = clocks_.view(who.agent);
  if (async_proxy && !who.strong && cell.readers != 0)
    shadow.readers().all(cell.readers, [&](const ReadEpoch &reader) {
      const bool known = reader.agent == who.agent || view.covers(reader.agent, reader.lanes, reader.clock);
      if (known && is_unfenced(view, reader)) report_unfenced_read(who, reader, address);
      return true;
    });
  shadow.forget_reads(cell);
  cell.pending_writes = who.strong && cell.pending_reduces ? cell.pending_writes + 1 : 1;
  cell.pending_reduces = who.strong;
  cell.pending_pc = who.pc;
}

void SharedMemory::land(const Accessor &who, Shadow &shadow, Cell &cell, bool async_proxy) {
  shadow.forget_reads(cell);
  cell.pending_writes = who.strong && cell.pending_writes ? cell.pending_writes - 1 : 0;
  cell.pending_reduces = who.strong && cell.pending_writes;
  cell.write_clock = clocks_.now(who.agent);
  cell.write_agent = who.agent;
  cell.write_lane = who.lane & 31;
  cell.write_pc = who.pc;
  cell.initialised = true;
  cell.generic = !async_proxy;
  cell.atomic = who.strong;
}

void SharedMemory::end_read(const Accessor &who, Shadow &shadow, Cell &cell) {
  if (cell.pending_reads) cell.pending_reads--;
  remember_read(who, shadow, cell);
}

void SharedMemory::check_pending(const Accessor &who, Cell &cell, uint32_t address, bool writes) {
  bool written = cell.pending_writes && !(who.strong && cell.pending_reduces);
  if (!written && !(writes && cell.pending_reads)) return;
  reporter_.report(Violation::pending_copy, *who.warp, who.pc, cell.pending_pc, static_cast<int>(who.lane), [&] {
    return std::string(writes ? "writes " : "reads ") + shared_place(address) +
           ", which the asynchronous operation of " + reporter_.line(cell.pending_pc) + " still " +
           (written ? "writes" : "reads") + ": nothing has waited for it";
  });
}

/// Until mbarrier.inval its memory is for nothing else.
void SharedMemory::check_mbarrier(const Accessor &who, Cell &cell, uint32_t address, const char *does) {
  const Making makes = who.properties ? who.properties->makes : Making::no;
  if (cell.mbarrier && makes != Making::inval)
    reporter_.report(Violation::mbarrier_reuse, *who.warp, who.pc, cell.write_pc, static_cast<int>(who.lane), [&] {
      return (makes == Making::init ? "makes an mbarrier of " : std::string(does) + " ") + shared_place(address) +
             ", which is one already (" + reporter_.line(cell.write_pc) + "), with no mbarrier.inval between";
    });
  cell.mbarrier = makes == Making::init;
}

void SharedMemory::check_written(const Accessor &who, const Cell &cell, uint32_t address, const char *does) {
  if (!cell.initialised) {
    if (cell.pending_writes) return;
    reporter_.report(Violation::uninitialised_memory, *who.warp, who.pc, no_pc, static_cast<int>(who.lane),
                     [&] { return std::string(does) + " " + shared_place(address) + ", which was never written"; });
    return;
  }
  check_order(who, cell, address, does);
}

void SharedMemory::check_order(const Accessor &who, const Cell &cell, uint32_t address, const char *does) {
  if (cell.atomic && who.strong) return;
  if (clocks_.knows(who.agent, who.lane, cell.write_agent, 1u << cell.write_lane, cell.write_clock)) return;
  const bool equal = who.stores_the_same();
  Violation kind = equal                           ? Violation::equal_values
                   : cell.write_agent == who.agent ? Violation::lane_race
                                                   : Violation::race;
  reporter_.report(kind, *who.warp, who.pc, cell.write_pc, static_cast<int>(who.lane), [&] {
    return std::string(does) + " " + shared_place(address) + ", which " +
           name_of_agent(cell.write_agent, cell.write_lane) + " wrote at " + reporter_.line(cell.write_pc) +
           ", with no synchronisation between" + (equal ? "; both store the same value" : "");
  });
}

void SharedMemory::check_readers(const Accessor &who, Shadow &shadow, const Cell &cell, uint32_t address) {
  if (cell.readers == 0) return;
  shadow.readers().all(cell.readers, [&](const ReadEpoch &reader) { return check_reader(who, reader, address), true; });
}

void SharedMemory::check_reader(const Accessor &who, const ReadEpoch &reader, uint32_t address) {
  if (reader.clock == 0 || clocks_.knows(who.agent, who.lane, reader.agent, reader.lanes, reader.clock)) return;
  bool same = reader.agent == who.agent;
  // A lane may write bytes that it has read itself.
  if (same && reader.lanes == 1u << who.lane) return;
  reporter_.report(same ? Violation::lane_race : Violation::race, *who.warp, who.pc, reader.pc,
                   static_cast<int>(who.lane), [&] {
                     uint32_t others = same ? reader.lanes & ~(1u << who.lane) : reader.lanes;
                     return "writes " + shared_place(address) + ", which " +
                            name_of_agent(reader.agent, static_cast<uint32_t>(std::countr_zero(others))) + " read at " +
                            reporter_.line(reader.pc) + ", with no synchronisation between";
                   });
}

void SharedMemory::remember_read(const Accessor &who, Shadow &shadow, Cell &cell) {
  uint32_t clock = clocks_.now(who.agent);
  auto add = [&](ReadEpoch &epoch) {
    // Most reads come from the lane's own warp at the clock of the last one.
    bool replaces = epoch.clock != clock && clocks_.knows(who.agent, who.lane, epoch.agent, epoch.lanes, epoch.clock);
    epoch.lanes = (replaces ? 0 : epoch.lanes) | 1u << who.lane;
    epoch.clock = clock;
    epoch.pc = who.pc;
  };
  ReaderSets &sets = shadow.readers();
  const ReadEpoch now{clock, 1u << who.lane, who.pc, who.agent};
  if (cell.readers == 0) {
    cell.readers = sets.make(now);
    return;
  }
  if (ReadEpoch *last = sets.only(cell.readers); last && last->agent != who.agent)
    if (clocks_.knows(who.agent, who.lane, last->agent, last->lanes, last->clock)) {
      *last = now;
      return;
    }
  ReadEpoch &own = sets.add(cell.readers, who.agent);
  if (own.clock != 0) return add(own);
  own = now;
}

std::string SharedMemory::name_of_agent(uint32_t agent, uint32_t lane) const {
  if (agent >= warps_) return "an asynchronous operation";
  std::string text = "warp " + std::to_string(agent % warps_per_cta_) + ", lane " + std::to_string(lane);
  return warps_ == warps_per_cta_ ? text : text + " of block " + std::to_string(agent / warps_per_cta_);
}

/// Accesses of other blocks that no warp of this one knows of when it ends: they may find its memory gone.
void SharedMemory::check_remote(const Cta &cta, const Cell &cell, uint32_t address) {
  auto check = [&](uint32_t agent, uint32_t lanes, uint32_t clock, uint32_t pc, const char *did) {
    if (clock == 0 || agent >= warps_ || agent / warps_per_cta_ == cta.rank) return;
    for (const Warp &warp : cta.warps)
      if (clocks_.knows(cta.rank * warps_per_cta_ + warp.index, 0, agent, lanes, clock)) return;
    reporter_.report(Violation::remote_access, cta.warps[0], pc, no_pc, -1, [&] {
      return name_of_agent(agent, static_cast<uint32_t>(std::countr_zero(lanes))) + " " + did + " " +
             shared_place(address) + ", and that block may have ended before: nothing makes it wait";
    });
  };
  check(cell.write_agent, 1u << cell.write_lane, cell.write_clock, cell.write_pc, "writes");
  if (cell.readers == 0) return;
  shadows_[cta.rank].readers().all(cell.readers, [&](const ReadEpoch &reader) {
    return check(reader.agent, reader.lanes, reader.clock, reader.pc, "reads"), true;
  });
}

void SharedMemory::end(const Cta &cta) {
  uint32_t rank = cta.rank;
  if (cta.shared_bytes == 0) return;
  bool reported = false, others = shadows_.size() > 1;
  if (others)
    shadows_[rank].visit(0, cta.shared_bytes, false, [&](Cell &cell, uint32_t at) {
      check_remote(cta, cell, (rank << memory::rank_shift) + at + memory::shared_begin);
    });
  shadows_[rank].visit_all([&](Cell &cell, uint32_t at) {
    if (reported || (cell.pending_writes == 0 && cell.pending_reads == 0)) return;
    reported = true;
    reporter_.report(Violation::unwaited, cta.warps[0], cell.pending_pc, no_pc, -1, [&] {
      return "the block ends, and nothing has waited for this asynchronous operation, which " +
             std::string(cell.pending_writes ? "writes " : "reads ") +
             shared_place((rank << memory::rank_shift) + at + memory::shared_begin);
    });
  });
}

}  // namespace fa::emu::check
