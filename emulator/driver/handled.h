// The objects of handles. Addresses of dead objects come again late, so that a handle that a program kept for too long
// is refused, whatever the timing, rather than taken for a newer object's.
#pragma once

#include <cstddef>

namespace fa::emu::driver {

/// Base of every object that a handle names.
struct Handled {
  static void *operator new(size_t bytes);
  static void operator delete(void *address);
};

}  // namespace fa::emu::driver
