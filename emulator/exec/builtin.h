// Functions that programs call and the driver provides: __assertfail, vprintf, malloc, free.
#pragma once

#include <string_view>

#include "exec/program.h"
#include "exec/warp.h"

namespace fa::emu {

/// The builtin of the name, or null.
Builtin builtin_of(std::string_view name);

/// Argument i of a lane, as a u64 (shorter ones are extended with zeros).
uint64_t builtin_argument(const Warp &warp, const CallSite &site, uint32_t lane, size_t i);
/// Sets the result of a lane.
void set_builtin_result(Warp &warp, const CallSite &site, uint32_t lane, uint64_t value);

}  // namespace fa::emu
