// The work of calls as a number that does not depend on the machine: the basic blocks that the library runs (it is
// compiled with -fsanitize-coverage=trace-pc for this program) and the bytes that it fills and copies through libc.
#pragma once

#include <cstdint>

namespace test {

/// The work so far, of all threads together.
int64_t work_done();

/// The work of f().
template <class F>
int64_t work_of(const F &f) {
  const int64_t before = work_done();
  f();
  return work_done() - before;
}

}  // namespace test
