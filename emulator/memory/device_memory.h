// Device memory: one large reservation of addresses, of which only touched pages cost memory, and the table of its
// allocations, down to the byte.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace fa::emu::memory {

enum class RangeKind : uint8_t { device, managed, host, module };

/// One allocation: [begin, end), as long as was asked for.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  RangeKind kind = RangeKind::device;
};

/// A snapshot of all ranges, sorted: a launch looks addresses up in it, without a lock.
class RangeTable {
 public:
  /// The range that holds the address, or null.
  const Range *find(uint64_t address) const;
  /// The range that begins nearest below the address, for messages; or null.
  const Range *nearest_below(uint64_t address) const;
  std::vector<Range> ranges;
};

/// Thread-safe. Addresses come from a cursor that moves on, so that freed memory is reused as late as possible and an
/// access to it is seen as one.
class DeviceMemory {
 public:
  /// capacity: bytes that may be allocated at once.
  explicit DeviceMemory(uint64_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;

  /// Zeroed memory; 0 where the capacity does not hold it. alignment: a power of two; 256 at least is used.
  uint64_t allocate(uint64_t bytes, RangeKind kind = RangeKind::device, uint64_t alignment = 256);
  /// False where nothing of this memory begins there.
  bool release(uint64_t address);
  /// Addresses without memory; 0 where none are left. bytes: whole pages.
  uint64_t reserve(uint64_t bytes, uint64_t alignment);
  /// Gives addresses back, nothing of which is mapped; false where no reservation begins there.
  bool unreserve(uint64_t address);
  /// Counts memory that is mapped to reserved addresses; false where the capacity does not hold it.
  bool take(uint64_t bytes);
  void give_back(uint64_t bytes);
  /// Lets kernels see memory that was mapped to reserved addresses, or hides it again.
  void show(uint64_t begin, uint64_t bytes);
  void hide(uint64_t begin);
  /// Makes memory of the host visible to kernels (pinned, registered), or hides it again.
  void add_host(const void *begin, uint64_t bytes, RangeKind kind = RangeKind::host);
  bool remove_host(const void *begin);

  std::shared_ptr<const RangeTable> ranges() const;
  /// Whether an address is in the reservation, allocated or not.
  bool holds(uint64_t address) const { return address - arena_ < arena_bytes_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const;

 private:
  uint64_t place(uint64_t bytes, uint64_t alignment);
  void changed();

  uint64_t capacity_;
  uint64_t used_ = 0;
  uint64_t arena_ = 0, arena_bytes_ = 0, cursor_ = 0;
  std::map<uint64_t, uint64_t> taken_;  // begin -> end with the gap behind it
  std::map<uint64_t, Range> ranges_;
  mutable std::shared_ptr<const RangeTable> snapshot_;
  mutable std::mutex mutex_;
};

}  // namespace fa::emu::memory
