// Memory of the host as devices with pageable access see it: all that the process has mapped.
#pragma once

#include <memory>

#include "driver/state.h"

namespace fa::emu::driver {

/// What a kernel that starts now may touch: what the device's memory knows, and where it has pageable access, whatever
/// else the process may read. What is not mapped stays a fault.
std::shared_ptr<const memory::RangeTable> reachable(const Device &device);

}  // namespace fa::emu::driver
