#include "cpu/count.h"

#include <atomic>
#include <cstddef>

namespace {

std::atomic<int64_t> done{0};

/// Bytes that libc moves count as a loop over 16 at a time would.
void add_bytes(size_t bytes) {
  done.fetch_add(static_cast<int64_t>(bytes / 16), std::memory_order_relaxed);
}

}  // namespace

namespace test {

int64_t work_done() {
  return done.load(std::memory_order_relaxed);
}

}  // namespace test

extern "C" {

/// Called by every basic block.
void __sanitizer_cov_trace_pc() {
  done.fetch_add(1, std::memory_order_relaxed);
}

// The linker puts these in the place of libc's (--wrap).
void *__real_memset(void *to, int value, size_t bytes);
void *__wrap_memset(void *to, int value, size_t bytes) {
  add_bytes(bytes);
  return __real_memset(to, value, bytes);
}
void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
  add_bytes(bytes);
  return __real_memcpy(to, from, bytes);
}
}
