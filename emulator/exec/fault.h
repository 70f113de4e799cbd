// The end of a kernel by a fault: thrown by handlers, reported with kernel, line, block, warp and lane, and turned into
// a driver's error code.
#pragma once

#include <cstdint>
#include <string>

#include "exec/instruction.h"

namespace fa::emu {

enum class FaultKind : uint8_t {
  illegal_address,
  misaligned_address,
  illegal_instruction,  // also: operands that the instruction does not allow
  divergence,           // lanes that should meet cannot
  deadlock,
  assertion,
  trap,
  stack_overflow,
  timeout,  // RunOptions::timeout
  check,    // a violation that only a check sees
};

struct Fault {
  FaultKind kind = FaultKind::illegal_instruction;
  std::string message;  // a sentence without its full stop
  std::string kernel;   // empty: another operation of a stream
  uint32_t ptx_line = 0;
  std::string ptx_text;
  std::string source;  // ptx::Module::name_of, where the PTX has .loc
  uint32_t cta[3] = {0, 0, 0};
  uint32_t warp = 0;
  int lane = -1;  // -1: no single one

  /// All of it in one line.
  std::string what() const;
};

std::string_view name_of(FaultKind kind);

/// A function as its source names it, from a mangled name; long arguments of templates are left out.
std::string readable_name(const std::string &symbol);

/// Throws a Fault at this instruction; lane -1: no single one.
[[noreturn, gnu::cold]] void fault(const Warp &warp, const Instruction &instruction, FaultKind kind, int lane,
                                   std::string message);

/// A fault that is not thrown: for reports.
Fault make_fault(const Warp &warp, const Instruction &instruction, FaultKind kind, int lane, std::string message);

}  // namespace fa::emu
