// The convergence of .sync instructions: lanes that name the same members, and faults of those that can never meet.
#pragma once

#include "exec/warp.h"

namespace fa::emu {

/// Lanes of mask that name the same member mask as its first lane.
uint32_t same_members(const Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t &members);

/// A finding of the checks: lanes execute a .sync instruction with a member mask that lacks them.
[[gnu::cold]] void outside_its_mask(const Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t members);
[[noreturn, gnu::cold]] void partly_guarded(const Warp &warp, const Instruction &instruction, uint32_t missing);
[[noreturn, gnu::cold]] void cannot_meet(const Warp &warp);

}  // namespace fa::emu
