// Bounds are checked for all lanes at once where they are in one range; only accesses that fail that are looked at lane
// by lane.
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

/// Idle lanes get the address of one that is not: properties of all addresses then hold for those that matter.
void fill_idle(uint64_t *address, uint32_t mask) {
  const uint64_t any = address[std::countr_zero(mask)];
  for (uint32_t lane = 0; lane < lanes; lane++) address[lane] = mask >> lane & 1 ? address[lane] : any;
}

void clear_idle(Resolved &out, uint32_t mask) {
  if (mask == all_lanes) return;
  for (uint32_t lane = 0; lane < lanes; lane++) out.at[lane] = mask >> lane & 1 ? out.at[lane] : nullptr;
}

/// Whether address - begin is from 0 to limit for all lanes; begin and limit are below 2^63.
bool all_inside(const uint64_t *address, uint64_t begin, uint64_t limit) {
  uint64_t negative = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint64_t offset = address[lane] - begin;
    negative |= offset | (limit - offset);
  }
  return negative >> 63 == 0;
}

void resolve_global(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, Resolved &out) {
  const memory::Range *range = warp.cta->last_range;
  bool inside = range && range->end - range->begin >= bytes &&
                all_inside(out.address, range->begin, range->end - range->begin - bytes);
  if (!inside)
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      int lane = std::countr_zero(rest);
      global_at(warp, instruction, lane, out.address[lane], bytes);
    }
  for (uint32_t lane = 0; lane < lanes; lane++) out.at[lane] = reinterpret_cast<uint8_t *>(out.address[lane]);
  clear_idle(out, mask);
}

void resolve_shared(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, Resolved &out) {
  const Cta &cta = *warp.cta;
  if (cta.shared_bytes < bytes)
    shared_fault(warp, instruction, std::countr_zero(mask), static_cast<uint32_t>(out.address[std::countr_zero(mask)]),
                 bytes);
  const uint64_t base = cta.shared_base, limit = cta.shared_bytes - bytes;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    out.address[lane] &= UINT32_MAX;
    out.at[lane] = cta.shared + (out.address[lane] - base);
  }
  if (!all_inside(out.address, base, limit))
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      int lane = std::countr_zero(rest);
      out.at[lane] = shared_at(warp, instruction, lane, static_cast<uint32_t>(out.address[lane]), bytes);
    }
  clear_idle(out, mask);
}

void resolve_local(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, Resolved &out) {
  const uint64_t stride = warp.local_stride;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    out.address[lane] &= memory::offset_mask;
    out.at[lane] = warp.local + stride * lane + out.address[lane];
  }
  clear_idle(out, mask);
  if (stride >= bytes && all_inside(out.address, 0, stride - bytes)) return;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int lane = std::countr_zero(rest);
    if (out.address[lane] + bytes > stride)
      fault(warp, instruction, FaultKind::illegal_address, lane,
            "access to " + std::to_string(bytes) + " bytes of local memory at " + hex(out.address[lane]) + " of " +
                std::to_string(stride));
  }
}

void resolve_param(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, Resolved &out) {
  const auto &parameters = warp.cta->launch->parameters;
  uint8_t *const begin = const_cast<uint8_t *>(parameters.data());
  uint64_t offset[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    offset[lane] = out.address[lane] & memory::offset_mask;
    out.at[lane] = begin + offset[lane];
  }
  clear_idle(out, mask);
  if (parameters.size() >= bytes && all_inside(offset, 0, parameters.size() - bytes)) return;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int lane = std::countr_zero(rest);
    if (offset[lane] + bytes > parameters.size())
      fault(warp, instruction, FaultKind::illegal_address, lane,
            "access to " + std::to_string(bytes) + " bytes at " + std::to_string(offset[lane]) + " of " +
                std::to_string(parameters.size()) + " bytes of parameters");
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

void check_alignment(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t alignment,
                     const uint64_t *address) {
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int lane = std::countr_zero(rest);
    if (address[lane] & (alignment - 1))
      fault(warp, instruction, FaultKind::misaligned_address, lane,
            "address " + hex(address[lane]) + " is not a multiple of " + std::to_string(alignment));
  }
}

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
  // address + bytes may be beyond 2^64: of the word before null.
  bool inside = range && address >= range->begin && address <= range->end && bytes <= range->end - address;
  if (!inside) {
    range = warp.cta->launch->ranges->find(address);
    if (!range || bytes > range->end - address) global_fault(warp, instruction, lane, address, bytes);
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
  if (mask != all_lanes) fill_idle(out.address, mask);
  uint64_t all = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) all |= out.address[lane];
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
             const Resolved &resolved, decltype(Access::digest) digest) {
  Observer *observer = warp.cta->cluster->observer.get();
  if (!observer) return;
  Access access{resolved.space, kind, bytes, mask, resolved.address};
  access.digest = digest;
  access.at = resolved.at;
  if (resolved.uniform) return observer->access(warp, instruction, access);
  for (Space space : {Space::global, Space::shared, Space::local, Space::param}) {
    uint32_t same = mask & collect([&](uint32_t lane) { return space_of(resolved.address[lane]) == space; });
    if (same == 0) continue;
    uint64_t inside[lanes];
    bool window = space != Space::global;
    for (uint32_t lane = 0; lane < lanes; lane++)
      inside[lane] = window ? resolved.address[lane] & memory::offset_mask : resolved.address[lane];
    access.space = space;
    access.mask = same;
    access.address = inside;
    observer->access(warp, instruction, access);
  }
}

}  // namespace fa::emu
