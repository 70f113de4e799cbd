// First fit; neighbours that are free are one piece.
#include "memory/device_heap.h"

#include <iterator>

#include "memory/device_memory.h"

namespace fa::emu::memory {

DeviceHeap::DeviceHeap(DeviceMemory &memory) {
  if (uint64_t begin = memory.allocate(bytes)) free_[begin] = begin + bytes, begin_ = begin;
}

uint64_t DeviceHeap::allocate(uint64_t size) {
  if (size == 0 || size > bytes) return 0;
  uint64_t needed = (size + 15) / 16 * 16;
  std::lock_guard lock(mutex_);
  for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
    auto [begin, end] = *piece;
    if (end - begin < needed) continue;
    free_.erase(piece);
    if (end - begin > needed) free_[begin + needed] = end;
    taken_[begin] = begin + needed;
    return begin;
  }
  return 0;
}

bool DeviceHeap::release(uint64_t address) {
  if (address == 0) return true;
  std::lock_guard lock(mutex_);
  auto piece = taken_.find(address);
  if (piece == taken_.end()) return false;
  uint64_t end = piece->second;
  taken_.erase(piece);
  auto after = free_.lower_bound(address);
  if (after != free_.end() && after->first == end) {
    end = after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin() && std::prev(after)->second == address)
    std::prev(after)->second = end;
  else
    free_[address] = end;
  return true;
}

}  // namespace fa::emu::memory
