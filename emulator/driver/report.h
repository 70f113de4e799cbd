// What a launch came to, for people (stderr) and programs (JSON).
#pragma once

#include <optional>

#include "exec/launch.h"

namespace fa::emu::driver {

/// Tells what the settings ask for. Where checks are strict, the first violation becomes the launch's fault.
void report(const Launch &launch, std::optional<Fault> &fault);

}  // namespace fa::emu::driver
