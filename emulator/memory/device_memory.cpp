// Placing allocations in the reservation, and the snapshot that launches read.
#include "memory/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace fa::emu::memory {
namespace {

constexpr uint64_t page = 4096;
constexpr uint64_t gap = 256;  // between allocations: an access just behind one is in none
constexpr uint64_t reservations[] = {uint64_t{1} << 44, uint64_t{1} << 40, uint64_t{1} << 37, uint64_t{1} << 34};

constexpr uint64_t up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void *host(uint64_t address) {
  return reinterpret_cast<void *>(address);
}

}  // namespace

const Range *RangeTable::nearest_below(uint64_t address) const {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), address,
                                [](uint64_t value, const Range &range) { return value < range.begin; });
  return after == ranges.begin() ? nullptr : &*std::prev(after);
}

const Range *RangeTable::find(uint64_t address) const {
  const Range *below = nearest_below(address);
  return below && address < below->end ? below : nullptr;
}

DeviceMemory::DeviceMemory(uint64_t capacity) : capacity_(capacity) {
  for (uint64_t bytes : reservations) {
    void *base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
    arena_ = cursor_ = reinterpret_cast<uint64_t>(base);
    arena_bytes_ = bytes;
    return;
  }
  throw std::bad_alloc();
}

DeviceMemory::~DeviceMemory() {
  munmap(host(arena_), arena_bytes_);
}

uint64_t DeviceMemory::place(uint64_t bytes, uint64_t alignment) {
  uint64_t end = arena_ + arena_bytes_;
  for (uint64_t start : {cursor_, arena_}) {
    uint64_t at = up(start, alignment);
    auto next = taken_.lower_bound(at);
    if (next != taken_.begin() && std::prev(next)->second > at) at = up(std::prev(next)->second, alignment);
    for (; at + bytes <= end; at = up(next->second, alignment), ++next)
      if (next == taken_.end() || at + bytes <= next->first) return at;
  }
  return 0;
}

uint64_t DeviceMemory::allocate(uint64_t bytes, RangeKind kind, uint64_t alignment) {
  std::lock_guard lock(mutex_);
  if (bytes == 0 || bytes > capacity_ - used_) return 0;
  // Large allocations have separate pages, which can be given back.
  bool own_pages = bytes >= page;
  alignment = std::max<uint64_t>(alignment, own_pages ? page : 256);
  uint64_t size = own_pages ? up(bytes + gap, page) : up(bytes + gap, 256);
  uint64_t at = place(size, alignment);
  if (at == 0) return 0;
  uint64_t first_page = at / page * page;
  if (mprotect(host(first_page), up(at + size, page) - first_page, PROT_READ | PROT_WRITE) != 0) return 0;
  taken_[at] = at + size;
  ranges_[at] = {at, at + bytes, kind};
  cursor_ = at + size;
  used_ += bytes;
  if (!own_pages) std::fill_n(static_cast<char *>(host(at)), bytes, '\0');
  changed();
  return at;
}

bool DeviceMemory::release(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = taken_.find(address);
  if (found == taken_.end()) return false;
  uint64_t size = found->second - found->first;
  if (size >= page) madvise(host(address), size, MADV_DONTNEED);
  used_ -= ranges_[address].end - address;
  ranges_.erase(address);
  taken_.erase(found);
  changed();
  return true;
}

uint64_t DeviceMemory::reserve(uint64_t bytes, uint64_t alignment) {
  std::lock_guard lock(mutex_);
  uint64_t at = place(bytes + page, std::max(alignment, page));  // an unused page behind it
  if (at == 0) return 0;
  cursor_ = taken_[at] = at + bytes + page;
  return at;
}

bool DeviceMemory::unreserve(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = taken_.find(address);
  if (found == taken_.end()) return false;
  uint64_t bytes = found->second - found->first;
  taken_.erase(found);
  return mmap(host(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
         MAP_FAILED;
}

bool DeviceMemory::take(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > capacity_ - used_) return false;
  used_ += bytes;
  return true;
}

void DeviceMemory::give_back(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  used_ -= bytes;
}

void DeviceMemory::show(uint64_t begin, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  ranges_[begin] = {begin, begin + bytes, RangeKind::device};
  changed();
}

void DeviceMemory::hide(uint64_t begin) {
  std::lock_guard lock(mutex_);
  ranges_.erase(begin);
  changed();
}

void DeviceMemory::add_host(const void *begin, uint64_t bytes, RangeKind kind) {
  std::lock_guard lock(mutex_);
  uint64_t at = reinterpret_cast<uint64_t>(begin);
  ranges_[at] = {at, at + bytes, kind};
  changed();
}

bool DeviceMemory::remove_host(const void *begin) {
  std::lock_guard lock(mutex_);
  uint64_t at = reinterpret_cast<uint64_t>(begin);
  if (taken_.count(at) || ranges_.erase(at) == 0) return false;
  changed();
  return true;
}

void DeviceMemory::changed() {
  snapshot_.reset();
}

std::shared_ptr<const RangeTable> DeviceMemory::ranges() const {
  std::lock_guard lock(mutex_);
  if (!snapshot_) {
    auto table = std::make_shared<RangeTable>();
    table->ranges.reserve(ranges_.size());
    for (const auto &[begin, range] : ranges_) table->ranges.push_back(range);
    snapshot_ = table;
  }
  return snapshot_;
}

uint64_t DeviceMemory::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace fa::emu::memory
