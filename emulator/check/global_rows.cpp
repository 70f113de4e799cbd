// Accesses to global memory that are plainly in order, whole cells and several lanes at once; as shared_rows.cpp.
#include <bit>

#include "check/global_memory.h"

namespace fa::emu::check {

GlobalMemory::Lanes GlobalMemory::together(const Access &access, uint32_t left, uint32_t lane) {
  const uint64_t first = access.address[lane];
  const uint32_t bytes = access.bytes;
  if (first % 16 != 0 || bytes >= 16 || !std::has_single_bit(bytes)) return {lane};
  const uint32_t count = 16 / bytes;
  for (uint32_t i = 1; i < count; i++)
    if (lane + i >= lanes || !(left >> (lane + i) & 1) || access.address[lane + i] != first + i * bytes) return {lane};
  return {lane, count, static_cast<uint32_t>(std::countr_zero(bytes))};
}

bool GlobalMemory::in_order(const Clocks::View &view, const GlobalEpoch &now, const GlobalEpoch &before) const {
  if (before.cluster == 0 || both_strong(before, view.agent, now.scope)) return true;
  if (before.cluster != cluster_) {
    if (known_.known.empty()) return false;
    auto found = known_.known.find(before.cluster);
    return found != known_.known.end() && before.cluster_clock <= found->second;
  }
  if (before.agent != view.agent) return view.covers(before.agent, before.lanes(), before.clock);
  if (before.clock <= view.met) return true;
  return before.lane == now.lane && before.share == now.share && !view.lanes_differ;
}

bool GlobalMemory::quick_read(const Clocks::View &view, const GlobalEpoch &now, GlobalCell &cell) const {
  if (!in_order(view, now, cell.write)) return false;
  for (GlobalEpoch &slot : cell.reads) {
    const bool of_warp = slot.cluster == cluster_ && slot.agent == now.agent;
    const bool own = of_warp && slot.lane == now.lane && slot.share == now.share;
    if (!own && !in_order(view, now, slot)) {
      if (of_warp && slot.share != now.share) return false;  // some of the lanes may be the same
      continue;
    }
    const bool early = own && slot.early;
    slot = now;
    slot.early |= early;
    return true;
  }
  return true;
}

bool GlobalMemory::quick_write(const Clocks::View &view, const GlobalEpoch &now, GlobalCell &cell) const {
  const GlobalEpoch &last = cell.write;
  const bool same = last.cluster == cluster_ && last.agent == now.agent && last.pc == now.pc;
  if (!same && !in_order(view, now, last)) return false;
  for (const GlobalEpoch &reader : cell.reads) {
    const bool own =
        reader.cluster == cluster_ && reader.agent == now.agent && reader.lane == now.lane && reader.share == now.share;
    if (!own && !in_order(view, now, reader)) return false;
  }
  cell.reads[0] = cell.reads[1] = {};
  cell.write = now;
  return true;
}

/// False where something is not plainly in order, or a cell is for fewer bytes: lanes go through access_alone then.
bool GlobalMemory::access_together(const Clocks::View &view, const Accessor &who, const Access &access,
                                   const Lanes &lanes, GlobalShadow::Held &held) {
  const uint64_t address = access.address[lanes.first];
  const uint32_t bytes = lanes.share == whole_cell ? access.bytes : 16;
  const uint32_t offset = static_cast<uint32_t>(address % GlobalShadow::page_bytes);
  if (bytes == 0 || offset + uint64_t{bytes} > GlobalShadow::page_bytes) return false;
  GlobalShadow::Page &page = held.page(address / GlobalShadow::page_bytes);
  if ((offset | bytes) % page.granule || (lanes.share != whole_cell && page.granule != 16)) return false;
  const bool reads = access.kind == AccessKind::read || access.kind == AccessKind::async_issue_read;
  GlobalEpoch epoch = now(who);
  epoch.share = lanes.share & 15;
  for (uint32_t at = offset; at < offset + bytes; at += page.granule) {
    GlobalCell &cell = page.cells[at / page.granule];
    if (cell.write.pending) return false;
    if (reads && cell.write.cluster != 0 && (who.properties->constant || who.access->async_proxy)) return false;
    if (!(reads ? quick_read(view, epoch, cell) : quick_write(view, epoch, cell))) return false;
  }
  return true;
}

}  // namespace fa::emu::check
