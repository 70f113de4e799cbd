// Memory of the host as devices with pageable access see it: all that the process has mapped.
#pragma once

#include <memory>

#include "driver/state.h"

namespace fa::emu::driver {

/// The memory that a kernel that starts now may touch: the device's own, and where it has pageable access, everything
/// that the process may read. Unmapped addresses stay a fault.
std::shared_ptr<const memory::RangeTable> reachable(const Device &device);

}  // namespace fa::emu::driver
