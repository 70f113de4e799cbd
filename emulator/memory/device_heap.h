// The heap of malloc and free in kernels: one allocation of device memory, handed out in pieces. It outlives launches,
// as the device's heap does.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace fa::emu::memory {

class DeviceMemory;

/// Thread-safe.
class DeviceHeap {
 public:
  static constexpr uint64_t bytes = 8 << 20;  // the driver's default

  /// Takes its memory from the device's; without any, every malloc gives 0.
  explicit DeviceHeap(DeviceMemory &memory);
  /// An address, a multiple of 16; 0 where no piece is large enough.
  uint64_t allocate(uint64_t size);
  /// False where nothing was handed out there. Null is fine.
  bool release(uint64_t address);
  /// Whether the address is in its memory.
  bool holds(uint64_t address) const { return address - begin_ < bytes; }

 private:
  std::mutex mutex_;
  uint64_t begin_ = UINT64_MAX - bytes;        // where it has no memory
  std::map<uint64_t, uint64_t> free_, taken_;  // begin -> end
};

}  // namespace fa::emu::memory
