// Attributes of devices and functions by number.
#pragma once

#include <optional>

#include "driver/devices.h"

namespace fa::emu::driver {

/// The value of CU_DEVICE_ATTRIBUTE number; nothing where there is no such attribute.
std::optional<int> device_attribute(const DeviceLimits &limits, int attribute);

}  // namespace fa::emu::driver
