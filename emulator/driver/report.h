// The outcome of a launch, for people (stderr) and programs (JSON).
#pragma once

#include <optional>

#include "exec/launch.h"

namespace fa::emu::driver {

/// Reports as the settings ask. Where checks are strict, the first finding that is severe enough becomes the
/// launch's fault.
void report(const Launch &launch, std::optional<Fault> &fault);

}  // namespace fa::emu::driver
