#include "engine/allocation.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

std::atomic<bool> watching = false;
std::atomic<int64_t> count = 0, failing_number = -1;
std::atomic<bool> failing_ever_after = false;

/// Counts an allocation; true when it is to fail.
bool fails() {
  if (!watching.load(std::memory_order_relaxed)) return false;
  const int64_t number = count.fetch_add(1);
  const int64_t failing = failing_number.load();
  return failing >= 0 && (number == failing || (failing_ever_after && number > failing));
}

}  // namespace

void watch_allocations(int64_t failing, bool all_after) {
  count = 0;
  failing_number = failing;
  failing_ever_after = all_after;
  watching = true;
}

int64_t stop_watching() {
  watching = false;
  return count;
}

}  // namespace test

#if defined(TEST_ASAN) || defined(TEST_TSAN) || defined(TEST_MSAN)

// The allocator is the sanitizer's: operator new can still be replaced.
const bool test::every_allocation_is_seen = false;

void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return test::fails() ? nullptr : std::malloc(size);
}
void *operator new(size_t size) {
  if (test::fails()) throw std::bad_alloc();
  if (void *p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void *p) noexcept {
  std::free(p);
}
void operator delete(void *p, size_t) noexcept {
  std::free(p);
}
void operator delete(void *p, const std::nothrow_t &) noexcept {
  std::free(p);
}

#else

const bool test::every_allocation_is_seen = true;

// The names under which glibc keeps its own allocator.
extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

namespace {
void *out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}
}  // namespace

__attribute__((visibility("default"))) void *malloc(size_t size) {
  return test::fails() ? out_of_memory() : __libc_malloc(size);
}
__attribute__((visibility("default"))) void *calloc(size_t number, size_t size) {
  return test::fails() ? out_of_memory() : __libc_calloc(number, size);
}
__attribute__((visibility("default"))) void *realloc(void *p, size_t size) {
  return test::fails() ? out_of_memory() : __libc_realloc(p, size);
}
__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t size) {
  return test::fails() ? out_of_memory() : __libc_memalign(alignment, size);
}
__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
__attribute__((visibility("default"))) int posix_memalign(void **result, size_t alignment, size_t size) {
  void *p = memalign(alignment, size);
  if (!p) return ENOMEM;
  *result = p;
  return 0;
}
}

#endif
