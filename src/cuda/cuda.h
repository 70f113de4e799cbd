// The CUDA engine's face to the dispatch table.
#pragma once

#include "core/engine.h"

namespace fa::cuda {

/// A line for every architecture and family of kernels/kernels.inc that this build has, newest architecture first.
KernelList kernels();

/// nullptr when GPU index is there and some kernel of this build runs on it, else the reason why not, which may lie in
/// *room.
const char *why_no_device(int32_t index, Reason *room);

}  // namespace fa::cuda
