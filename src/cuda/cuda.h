// The CUDA engine's face to the dispatch table.
#pragma once

#include "core/engine.h"

namespace fa::cuda {

/// A line for every architecture and family of kernels/families.inc that this build has, newest architecture first.
KernelList kernels();

/// nullptr when GPU index is there and some kernel of this build runs on it, else the reason why not, which may be in
/// *buffer.
const char *why_no_device(int32_t index, MessageBuffer *buffer);

/// The compiler of the GPU kernels and the drivers that run them, "CUDA 12.9 (driver 525 or later)", in *buffer;
/// nullptr where this build has none.
const char *toolkit(MessageBuffer *buffer);

}  // namespace fa::cuda
