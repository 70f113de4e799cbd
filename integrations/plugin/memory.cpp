#include "plugin/memory.h"

#include <cstdlib>
#include <new>

namespace fa_plugin {

void Memory::Free::operator()(void *memory) const {
  std::free(memory);
}

void *Memory::at_least(size_t bytes) {
  constexpr size_t alignment = 256;
  if (bytes > size_ || !memory_) {
    const size_t rounded = (bytes / alignment + 1) * alignment;
    memory_.reset();
    size_ = 0;
    memory_.reset(std::aligned_alloc(alignment, rounded));
    if (!memory_) throw std::bad_alloc();
    size_ = rounded;
  }
  return memory_.get();
}

}  // namespace fa_plugin
