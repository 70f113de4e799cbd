// The CPU engine's face to the dispatch table.
#pragma once

#include <cstddef>

#include "core/engine.h"

namespace fa::cpu {

struct KernelList {
  const Kernel *first;
  size_t count;
};

/// The CPU's kernels, best first; those that this architecture can have, whether or not this machine can run them.
KernelList kernels();

/// Ends the pool's threads. No call may be under way.
void shutdown();

}  // namespace fa::cpu
