// Memory of a call that is kept for the next one.
#pragma once
#include <cstddef>
#include <memory>

namespace fa_plugin {

// Memory that grows and is never cleared, aligned for any use by libfa.
class Memory {
 public:
  // The memory, of `bytes` bytes or more; its contents are lost where it grows. Never null; throws std::bad_alloc.
  void *at_least(size_t bytes);

  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void *memory) const;
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};

}  // namespace fa_plugin
