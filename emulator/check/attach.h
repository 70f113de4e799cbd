// The observers of a launch, by the options.
#pragma once

#include "exec/launch.h"

namespace fa::emu::check {

/// Sets Launch::make_observer.
void attach(Launch &launch);

}  // namespace fa::emu::check
