// The CPU engine: an attention bound to one ISA's kernels.
#pragma once

#include "core/engine.h"
#include "cpu/tile.h"

namespace fa::cpu {

/// nullptr after an error that core/status.h describes.
Engine *create_engine(const Attention &attention, const IsaKernels &kernels);

}  // namespace fa::cpu
