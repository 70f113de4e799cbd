// Memory between two inaccessible pages: an access one byte outside faults instead of going unseen,
// by the CPU, and by the GPU under test as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reference {

/// The end of the accessible pages at which the bytes are, flush with the inaccessible page.
enum class Guard { end, start };

/// A block of bytes between guard pages.
class GuardedMemory {
 public:
  GuardedMemory() = default;
  GuardedMemory(size_t bytes, Guard guard);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory &&other) noexcept;
  GuardedMemory &operator=(GuardedMemory &&other) noexcept;

  char *data() const { return data_; }
  size_t size() const { return size_; }

 private:
  char *mapping_ = nullptr;
  size_t mapped_ = 0;
  char *data_ = nullptr;
  size_t size_ = 0;
  bool shared_ = false;  // with the GPU under test
};

/// An array of int32_t between guard pages.
class GuardedInts {
 public:
  GuardedInts() = default;
  GuardedInts(const std::vector<int32_t> &values, Guard guard);

  int32_t *data() const { return reinterpret_cast<int32_t *>(memory_.data()); }
  int32_t &operator[](size_t i) const { return data()[i]; }
  size_t size() const { return memory_.size() / sizeof(int32_t); }

 private:
  GuardedMemory memory_;
};

}  // namespace reference
