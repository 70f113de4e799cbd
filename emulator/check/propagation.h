// Values that nobody has written, followed through arithmetic: compilers compute with lanes, rows and columns that are
// uninitialised and drop the result. They count where they reach memory, an address or a branch.
#pragma once

#include <span>
#include <vector>

#include "check/properties.h"
#include "exec/warp.h"

namespace fa::emu::check {

/// The result of an instruction with sources without a value.
Propagation propagation_of(const ptx::Opcode &opcode, std::span<const ptx::Operand> operands);

/// An instruction, and which lanes of each register have a value.
struct PropagationStep {
  const Warp &warp;
  uint32_t pc = 0;
  Propagation rule = Propagation::use;
  uint32_t mask = 0;
  std::span<const uint32_t> written;
  uint32_t only = ptx::none;  // as if all other registers had values

  /// Lanes of the result in that register that are uninitialised.
  uint32_t into(uint32_t reg) const;
  uint32_t missing(const ptx::Operand &operand) const;
  std::span<const ptx::Operand> operands() const;
  /// The elements of a vector, or the operand itself.
  std::span<const ptx::Operand> elements(size_t operand) const;

 private:
  uint32_t missing(uint32_t reg) const { return mask & ~lanes_with_values(reg); }
  uint32_t lanes_with_values(uint32_t reg) const {
    return reg >= written.size() || (only != ptx::none && only != reg) ? all_lanes : written[reg];
  }
  uint32_t missing_sources() const;
  uint32_t chosen() const;
  uint32_t absorbed(bool absorbing) const;
  uint32_t exchanged(uint32_t reg) const;
  uint32_t multiplied(uint32_t reg) const;
};

}  // namespace fa::emu::check
