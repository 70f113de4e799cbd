// Reports which shared memory an operand of a tensor core instruction is in.
#pragma once

#include "exec/cta.h"
#include "exec/operand_tile.h"

namespace fa::emu {

/// Rows first to first + count of the operand in the shared memory of the CTA of that rank, as reads by the
/// asynchronous proxy; 32 chunks at a time. key as in Access.
void observe_operand(Warp &warp, const Instruction &instruction, AccessKind kind, uint32_t rank, uint64_t key,
                     const OperandSource &source, uint32_t first, uint32_t count);

}  // namespace fa::emu
