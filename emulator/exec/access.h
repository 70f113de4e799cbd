// From addresses to host memory: state spaces, bounds, alignment. Every handler that touches memory goes through here.
#pragma once

#include <cstdint>

#include "exec/cta.h"
#include "exec/instruction.h"

namespace fa::emu {

/// One warp's access, resolved. at[lane] is null for lanes that are idle.
struct Resolved {
  uint64_t address[lanes];  // as Access::address wants it
  uint8_t *at[lanes];
  ptx::Space space = ptx::Space::global;  // generic addresses resolve to one of the others
  bool uniform = true;                    // false: lanes of a generic access are in different spaces
};

/// The addresses of an instruction's memory operand, displacement added.
void addresses(const Warp &warp, const Instruction &instruction, uint64_t *address);
void addresses(const Warp &warp, AddressBase base, Slot row, int64_t displacement, uint64_t *address);

/// Resolves the instruction's own memory operand for bytes a lane; a fault where an address is out of bounds or not a
/// multiple of alignment.
void resolve(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t bytes, uint32_t alignment,
             Resolved &out);
/// The same for addresses that are already in out.address, in a given space.
void resolve(Warp &warp, const Instruction &instruction, ptx::Space space, uint32_t mask, uint32_t bytes,
             uint32_t alignment, Resolved &out);

/// A fault where a lane's address is not a multiple of the alignment, a power of two.
[[gnu::cold]] void check_alignment(Warp &warp, const Instruction &instruction, uint32_t mask, uint32_t alignment,
                                   const uint64_t *address);

/// One lane's access to shared memory: its own CTA's, or that of the CTA whose rank the address carries.
uint8_t *shared_at(Warp &warp, const Instruction &instruction, int lane, uint32_t address, uint32_t bytes);
/// One lane's access to global memory.
uint8_t *global_at(Warp &warp, const Instruction &instruction, int lane, uint64_t address, uint64_t bytes);
/// A 32-bit shared address from a generic or a shared one.
uint32_t shared_address(uint64_t address);

/// Reports a resolved access to the observer; per space where lanes differ. digest: as in Access.
void observe(Warp &warp, const Instruction &instruction, AccessKind kind, uint32_t mask, uint32_t bytes,
             const Resolved &resolved, decltype(Access::digest) digest = nullptr);

}  // namespace fa::emu
