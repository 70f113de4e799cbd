// What a launch came to, for people (stderr) and programs (JSON).
#pragma once

#include <optional>

#include "exec/launch.h"

namespace fa::emu::driver {

/// Tells what the settings ask for.
void report(const Launch &launch, const std::optional<Fault> &fault);

}  // namespace fa::emu::driver
