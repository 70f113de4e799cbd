// The CPU engine's interface to the dispatch table.
#pragma once

#include "core/engine.h"

namespace fa::cpu {

/// The CPU's kernels, best first; those that this architecture can have, whether or not this machine can run them.
KernelList kernels();

/// Ends the pool's threads. No call may be under way.
void shutdown();

}  // namespace fa::cpu
