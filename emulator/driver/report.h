// The outcome of a launch, for people (stderr) and programs (JSON).
#pragma once

#include <optional>
#include <vector>

#include "exec/launch.h"

namespace fa::emu::driver {

/// Reports as the settings ask. Where checks are strict, the first finding that is severe enough becomes the
/// launch's fault.
void report(const Launch &launch, std::optional<Fault> &fault);
/// Findings of an operation that is no launch; whether the settings make one of them its fault.
bool report(const std::vector<Finding> &findings);

}  // namespace fa::emu::driver
