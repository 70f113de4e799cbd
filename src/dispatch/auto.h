// FA_DEVICE_AUTO where there is a GPU: two engines as one.
#pragma once

#include <memory>

#include "core/engine.h"

namespace fa::dispatch {

/// A GPU's engine, and the CPU's for the calls whose memory the GPU does not reach.
std::unique_ptr<Engine> auto_engine(std::unique_ptr<Engine> gpu, std::unique_ptr<Engine> cpu,
                                    const KernelEntry &cpu_kernel);

}  // namespace fa::dispatch
