// Managed variables of a library: one place each, whatever contexts and devices use the library.
#pragma once

#include "driver/state.h"

namespace fa::emu::driver {

/// Enters the addresses of a library's managed variables into a module of it; those that have no place yet get one.
void place_managed(Library &library, Module &module);
/// Gives them their initial values, once, as far as these name variables that the module has a place for.
void initialise_managed(Library &library, Module &module);
/// A library's variable; refuses names that it does not have. No context is needed.
const ManagedVariable &managed_variable(Library &library, const char *name);

}  // namespace fa::emu::driver
