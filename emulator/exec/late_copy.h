// A copy of a wgmma's result that no wgmma.wait_group has waited for yet. PTX leaves it undefined; ptxas makes the copy
// wait for the product.
#pragma once

#include "exec/instruction.h"

namespace fa::emu {

/// Waits until the products in flight that write its sources have been computed, then copies as
/// Program::late_copies[instruction.target] does. Of Flow::pausing.
void copy_late_result(Warp &warp, const Instruction &instruction, uint32_t mask);

}  // namespace fa::emu
