// One wgmma.mma_async of a warpgroup, and its computation.
#pragma once

#include <cstddef>
#include <deque>

#include "exec/cta.h"
#include "exec/families/wgmma.h"

namespace fa::emu::wgmma {

constexpr uint32_t group_warps = 4;

/// The four warps of the group issue it, each of them for 16 of the 64 rows. They differ in their
/// registers; fragments of A are read when a warp issues.
struct Product {
  const Instruction *instruction = nullptr;
  uint64_t a_descriptor = 0, b_descriptor = 0;
  bool accumulate = false;
  uint32_t issued = 0;                // warps of the group, a bit each
  uint8_t *frame[group_warps] = {};   // their registers
  uint32_t a[group_warps][4][lanes];  // where A comes from registers
};

/// One operand in the block's shared memory; a fault of the warp where the descriptor is invalid.
OperandSource source_of(Warp &warp, const Instruction &instruction, uint64_t descriptor, Element element,
                        bool transposed);

/// Computes the first `count` of the products, which all four warps have issued, one after another: reads shared memory
/// and writes accumulators. warp: one of the group, of which faults are reported.
void compute(Warp &warp, const std::deque<Product> &products, size_t count);

}  // namespace fa::emu::wgmma
