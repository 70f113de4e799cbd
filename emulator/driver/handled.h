// The objects of handles. Their addresses are reused late, so that a program's stale handle is refused rather than
// taken for that of a newer object.
#pragma once

#include <cstddef>

namespace fa::emu::driver {

/// Base of every object that a handle names.
struct Handled {
  static void *operator new(size_t bytes);
  static void operator delete(void *address);
};

}  // namespace fa::emu::driver
