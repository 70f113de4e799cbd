#include "driver/handled.h"

#include <deque>
#include <mutex>
#include <new>

namespace fa::emu::driver {
namespace {

constexpr size_t max_kept = 4096;

struct Kept {
  std::mutex mutex;
  std::deque<void *> blocks;  // the oldest first
};

Kept &kept() {
  // Never destroyed: objects end after static ones.
  static Kept *const instance = new Kept;
  return *instance;
}

}  // namespace

void *Handled::operator new(size_t bytes) {
  return ::operator new(bytes);
}

void Handled::operator delete(void *address) {
  std::lock_guard lock(kept().mutex);
  kept().blocks.push_back(address);
  if (kept().blocks.size() <= max_kept) return;
  ::operator delete(kept().blocks.front());
  kept().blocks.pop_front();
}

}  // namespace fa::emu::driver
