// The table of allocations, and questions about addresses.
#include "driver/memory_table.h"

#include <algorithm>

namespace fa::emu::driver {

bool is_accessible(uint64_t address, uint64_t bytes, bool device_only) {
  bool in_arena = false;
  for (const auto &device : process().devices) {
    auto ranges = device->memory->ranges();
    // Adjacent mappings count as one: allocations have gaps between them.
    const memory::Range *range = ranges->find(address);
    for (uint64_t end = address + bytes; range; range = ranges->find(range->end))
      if (end <= range->end) return true;
    if (ranges->find(address)) return false;
    in_arena |= device->memory->holds(address);
  }
  return !device_only && !in_arena;
}

bool is_known(uint64_t address) {
  return std::any_of(process().devices.begin(), process().devices.end(),
                     [&](const auto &device) { return device->memory->ranges()->find(address) != nullptr; });
}

Allocation *find_allocation(uint64_t address) {
  auto &table = process().allocations;
  auto after = table.upper_bound(address);
  if (after == table.begin()) return nullptr;
  auto &[begin, allocation] = *std::prev(after);
  return address < begin + allocation.bytes ? &allocation : nullptr;
}

uint64_t make_allocation(Context &context, Device &device, uint64_t bytes, memory::RangeKind kind, Pool *pool) {
  if (pool && pool->most && pool->used + bytes > pool->most)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the pool's size does not hold that much");
  uint64_t address = device.memory->allocate(bytes, kind);
  if (address == 0)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, std::to_string(bytes) + " bytes, of which the device has " +
                                         std::to_string(device.memory->capacity() - device.memory->used()) + " left");
  Allocation allocation;
  allocation.device = &device;
  allocation.context = &context;
  allocation.pool = pool;
  allocation.bytes = bytes;
  allocation.id = ++process().ids;
  allocation.kind = kind;
  process().allocations[address] = allocation;
  if (pool) {
    pool->used += bytes;
    pool->high = std::max(pool->high, pool->used);
  }
  return address;
}

bool release_allocation(uint64_t address) {
  Lock lock(process().mutex);
  auto found = process().allocations.find(address);
  if (found == process().allocations.end() || found->second.kind == memory::RangeKind::host) return false;
  if (found->second.pool) found->second.pool->used -= found->second.bytes;
  found->second.device->memory->release(address);
  process().allocations.erase(found);
  return true;
}

}  // namespace fa::emu::driver
