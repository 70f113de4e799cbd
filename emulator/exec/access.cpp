// Bounds are checked for all lanes at once where they are in one range; only what fails that is looked at lane by lane.
#include "exec/access.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "exec/fault.h"
#include "exec/lanes.h"
#include "exec/launch.h"
#include "memory/windows.h"

namespace fa::emu {
namespace {

using ptx::Space;

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

Space space_of(uint64_t generic) {
  switch (generic >> memory::window_shift) {
    case memory::shared_window >> memory::window_shift:
      return Space::shared;
    case memory::local_window >> memory::window_shift:
      return Space::local;
    case memory::param_window >> memory::window_shift:
      return Space::param;
    default:
      return Space::global;
  }
}

[[noreturn, gnu::cold]] void global_fault(Warp &warp, const Instruction &instruction, int lane, uint64_t address,
                                          uint64_t bytes) {
  std::string message =
      "access to " + std::to_string(bytes) + " bytes at " + hex(address) + ", which is in no allocation";
  if (const memory::Range *below = warp.cta->launch->ranges->nearest_below(address)) {
    message += "; the nearest below begins at " + hex(below->begin) + " and has " +
               std::to_string(below->end - below->begin) + " bytes";
    message += address < below->end
                   ? " (the access runs over its end)"
                   : " (the access begins " + std::to_string(address - below->end) + " behind its end)";
  }
  fault(warp, instruction, FaultKind::illegal_address, lane, std::move(message));
}

[[noreturn, gnu::cold]] void shared_fault(Warp &warp, const Instruction &instruction, int lane, uint32_t address,
                                          uint32_t bytes) {
  const Cta &cta = *warp.cta;
  fault(warp, instruction, FaultKind::illegal_address, lane,
        "access to " + std::to_string(bytes) + " bytes of shared memory at " + hex(address) + ", offset " +
            std::to_string(static_cast<int64_t>(address) - static_cast<int64_t>(cta.shared_base)) + " of the " +
            std::to_string(cta.shared_bytes) + " bytes that the block has");
}

[[gnu::cold]] void check_alignment(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t alignment,
                                   const uint64_t *address) {
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int lane = std::countr_zero(rest);
    if (address[lane] & (alignment - 1))
      fault(warp, instruction, FaultKind::misaligned_address, lane,
            "address " + hex(address[lane]) + " is no multiple of " + std::to_string(alignment));
  }
}

void resolve_global(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, Resolved &out) {
  uint64_t low = UINT64_MAX, high = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint64_t address = out.address[lane];
    bool active = mask >> lane & 1;
    low = active && address < low ? address : low;
    high = active && address > high ? address : high;
  }
  const memory::Range *range = warp.cta->last_range;
  bool inside = range && low >= range->begin && high + bytes <= range->end && high + bytes > high;
  if (!inside)
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      int lane = std::countr_zero(rest);
      global_at(warp, instruction, lane, out.address[lane], bytes);
    }
  for (uint32_t lane = 0; lane < lanes; lane++)
    out.at[lane] = mask >> lane & 1 ? reinterpret_cast<uint8_t *>(out.address[lane]) : nullptr;
}

void resolve_shared(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, Resolved &out) {
  const Cta &cta = *warp.cta;
  uint32_t limit = cta.shared_bytes >= bytes ? cta.shared_bytes - bytes : 0;
  uint64_t base = cta.shared_base;
  if (cta.shared_bytes < bytes)
    shared_fault(warp, instruction, std::countr_zero(mask), static_cast<uint32_t>(out.address[std::countr_zero(mask)]),
                 bytes);
  uint32_t outside = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint64_t offset = (out.address[lane] & UINT32_MAX) - base;
    outside |= uint32_t{offset > limit} << lane;
    out.address[lane] &= UINT32_MAX;
    out.at[lane] = mask >> lane & 1 ? cta.shared + offset : nullptr;
  }
  for (uint32_t rest = outside & mask; rest; rest &= rest - 1) {
    int lane = std::countr_zero(rest);
    out.at[lane] = shared_at(warp, instruction, lane, static_cast<uint32_t>(out.address[lane]), bytes);
  }
}

void resolve_local(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, Resolved &out) {
  for (uint32_t lane = 0; lane < lanes; lane++) {
    out.at[lane] = nullptr;
    if (!(mask >> lane & 1)) continue;
    uint64_t offset = out.address[lane] & memory::offset_mask;
    if (offset + bytes > warp.local_stride)
      fault(warp, instruction, FaultKind::illegal_address, static_cast<int>(lane),
            "access to " + std::to_string(bytes) + " bytes of local memory at " + hex(offset) + " of " +
                std::to_string(warp.local_stride));
    out.address[lane] = offset;
    out.at[lane] = warp.local + size_t{warp.local_stride} * lane + offset;
  }
}

void resolve_param(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, Resolved &out) {
  const auto &parameters = warp.cta->launch->parameters;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    out.at[lane] = nullptr;
    if (!(mask >> lane & 1)) continue;
    uint64_t offset = out.address[lane] & memory::offset_mask;
    if (offset + bytes > parameters.size())
      fault(warp, instruction, FaultKind::illegal_address, static_cast<int>(lane),
            "access to " + std::to_string(bytes) + " bytes at " + std::to_string(offset) + " of " +
                std::to_string(parameters.size()) + " bytes of parameters");
    out.at[lane] = const_cast<uint8_t *>(parameters.data()) + offset;
  }
}

/// Lanes of a generic access that are in different spaces.
void resolve_mixed(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, Resolved &out) {
  out.uniform = false;
  Resolved all = out;
  std::fill_n(out.at, lanes, nullptr);
  while (mask) {
    Space space = space_of(all.address[std::countr_zero(mask)]);
    uint32_t same = collect([&](uint32_t lane) { return space_of(all.address[lane]) == space; }) & mask;
    Resolved part = all;
    resolve(warp, instruction, space, same, bytes, 1, part);
    for (uint32_t lane = 0; lane < lanes; lane++)
      if (same >> lane & 1) out.at[lane] = part.at[lane];
    mask &= ~same;
  }
}

}  // namespace

uint32_t shared_address(uint64_t address) {
  return static_cast<uint32_t>(address);
}

uint8_t *shared_at(Warp &warp, const Instruction &instruction, int lane, uint32_t address, uint32_t bytes) {
  auto &ctas = warp.cta->cluster->ctas;
  uint32_t rank = address >> memory::rank_shift;
  if (rank >= ctas.size()) shared_fault(warp, instruction, lane, address, bytes);
  Cta &owner = ctas[rank];
  if (owner.warps_alive == 0 && &owner != warp.cta)
    fault(warp, instruction, FaultKind::illegal_address, lane,
          "access to the shared memory of block " + std::to_string(rank) + " of the cluster, which has ended");
  uint32_t offset = address - owner.shared_base;
  if (address < owner.shared_base || uint64_t{offset} + bytes > owner.shared_bytes)
    shared_fault(warp, instruction, lane, address, bytes);
  return owner.shared + offset;
}

uint8_t *global_at(Warp &warp, const Instruction &instruction, int lane, uint64_t address, uint64_t bytes) {
  const memory::Range *&range = warp.cta->last_range;
  bool inside = range && address >= range->begin && address + bytes <= range->end;
  if (!inside) {
    range = warp.cta->launch->ranges->find(address);
    if (!range || address + bytes > range->end || address + bytes < address)
      global_fault(warp, instruction, lane, address, bytes);
  }
  return reinterpret_cast<uint8_t *>(address);
}

void addresses(const Warp &warp, AddressBase base, Slot row, int64_t displacement, uint64_t *address) {
  uint64_t add = static_cast<uint64_t>(displacement);
  switch (base) {
    case AddressBase::row64: {
      const uint64_t *values = warp.row<uint64_t>(row);
      for (uint32_t lane = 0; lane < lanes; lane++) address[lane] = values[lane] + add;
      return;
    }
    case AddressBase::row32: {
      const uint32_t *values = warp.row<uint32_t>(row);
      for (uint32_t lane = 0; lane < lanes; lane++) address[lane] = static_cast<uint32_t>(values[lane] + add);
      return;
    }
    case AddressBase::frame:
      return std::fill_n(address, lanes, warp.frame->local_base + add), void();
    case AddressBase::none:
      return std::fill_n(address, lanes, add), void();
  }
}

void addresses(const Warp &warp, const Instruction &instruction, uint64_t *address) {
  addresses(warp, instruction.base, instruction.a, instruction.imm, address);
}

void resolve(Warp &warp, const Instruction &instruction, Space space, uint32_t mask, uint32_t bytes, uint32_t alignment,
             Resolved &out) {
  uint64_t all = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) all |= mask >> lane & 1 ? out.address[lane] : 0;
  if (all & (alignment - 1)) check_alignment(warp, instruction, mask, alignment, out.address);
  out.uniform = true;
  if (space == Space::generic) {
    space = Space::global;
    if (all >> memory::window_shift) {
      space = space_of(out.address[std::countr_zero(mask)]);
      uint32_t same = collect([&](uint32_t lane) { return space_of(out.address[lane]) == space; });
      if (mask & ~same) return resolve_mixed(warp, instruction, mask, bytes, out);
    }
  }
  out.space = space;
  switch (space) {
    case Space::shared:
      return resolve_shared(warp, instruction, mask, bytes, out);
    case Space::local:
      return resolve_local(warp, instruction, mask, bytes, out);
    case Space::param:
      return resolve_param(warp, instruction, mask, bytes, out);
    default:
      return resolve_global(warp, instruction, mask, bytes, out);
  }
}

void resolve(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, uint32_t alignment,
             Resolved &out) {
  addresses(warp, instruction, out.address);
  resolve(warp, instruction, instruction.space, mask, bytes, alignment, out);
}

void observe(Warp &warp, const Instruction &instruction, AccessKind kind, uint32_t mask, uint32_t bytes,
             const Resolved &resolved) {
  Observer *observer = warp.cta->cluster->observer.get();
  if (!observer) return;
  if (resolved.uniform)
    return observer->access(warp, instruction, {resolved.space, kind, bytes, mask, resolved.address, false});
  for (Space space : {Space::global, Space::shared, Space::local, Space::param}) {
    uint32_t same = mask & collect([&](uint32_t lane) { return space_of(resolved.address[lane]) == space; });
    if (same == 0) continue;
    uint64_t inside[lanes];
    bool window = space != Space::global;
    for (uint32_t lane = 0; lane < lanes; lane++)
      inside[lane] = window ? resolved.address[lane] & memory::offset_mask : resolved.address[lane];
    observer->access(warp, instruction, {space, kind, bytes, same, inside, false});
  }
}

}  // namespace fa::emu
