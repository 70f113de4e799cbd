// Where registers live. nvcc's PTX has thousands of registers, each written once; giving rows to live ones only makes a
// warp's registers fit into the cache, which decides the emulator's speed.
#pragma once

#include <span>
#include <vector>

#include "exec/program.h"

namespace fa::emu {

/// A register that an instruction of the function writes after it has passed: wgmma's accumulators, results of
/// tcgen05.ld.
struct LateWrite {
  uint32_t at = 0;
  ptx::Index reg = 0;
  bool accumulates = false;  // other such instructions may use it while it is in flight
};

struct AllocationInput {
  std::span<const Instruction> code;  // of one function, targets still absolute
  uint32_t first_pc = 0;
  std::span<const uint32_t> first_use;  // by instruction, one more at the end
  std::span<const RegisterUse> uses;
  std::span<const ptx::Type> registers;
  std::span<const LateWrite> late;     // by instruction
  std::span<const uint32_t> landings;  // instructions after which all late writes are done
  std::span<const uint32_t> copies;    // instructions that copy registers, in their order
  std::span<const std::vector<uint32_t>> tables;
};

/// The place of every register, and the bytes of the frame.
struct Allocation {
  std::vector<Slot> slots;
  uint32_t frame_bytes = 0;
  std::vector<uint32_t> used_early;   // instructions whose late writes, but for accumulators, are used before a landing
  std::vector<uint32_t> late_copies;  // copies that may read an accumulator before a landing, in their order
};

Allocation allocate(const AllocationInput &input);

/// Bytes of a register's row.
uint32_t row_bytes(ptx::Type type);

}  // namespace fa::emu
