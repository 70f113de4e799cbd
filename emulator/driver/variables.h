// Variables of a module in device memory (module.cpp).
#pragma once

#include "driver/state.h"

namespace fa::emu::driver {

/// Whether a variable has a place in device memory.
bool in_memory(const ptx::Variable &variable);
/// Writes a variable's initial value to its place.
void initialise(Module &module, ptx::Index number);

}  // namespace fa::emu::driver
