#include "reference/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "reference/gpu.h"

namespace reference {

GuardedMemory::GuardedMemory(size_t bytes, Guard guard) : size_(bytes) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  const size_t accessible = (bytes + page - 1) / page * page;
  mapped_ = accessible + 2 * page;
  void *mapping = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<char *>(mapping);
  if (accessible && mprotect(mapping_ + page, accessible, PROT_READ | PROT_WRITE)) throw std::bad_alloc();
  data_ = mapping_ + page + (guard == Guard::end ? accessible - bytes : 0);
  shared_ = share_bytes(data_, bytes);
}

GuardedMemory::~GuardedMemory() {
  if (shared_) unshare_bytes(data_);
  if (mapping_) munmap(mapping_, mapped_);
}

GuardedMemory::GuardedMemory(GuardedMemory &&other) noexcept {
  *this = std::move(other);
}

GuardedMemory &GuardedMemory::operator=(GuardedMemory &&other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(shared_, other.shared_);
  return *this;
}

GuardedInts::GuardedInts(const std::vector<int32_t> &values, Guard guard)
    : memory_(values.size() * sizeof(int32_t), guard) {
  std::copy(values.begin(), values.end(), data());
}

}  // namespace reference
