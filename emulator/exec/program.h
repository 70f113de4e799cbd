// A kernel ready to run: its own instructions and those of every function that it may call, decoded into one array.
// Immutable and shared by all threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/instruction.h"
#include "ptx/module.h"

namespace fa::emu {

struct LaunchState;

/// Memory aligned for rows.
struct alignas(64) RowBlock {
  uint8_t bytes[64];
};

/// One function's share of the code.
struct ProgramFunction {
  ptx::Index function = ptx::none;  // Module::functions
  uint32_t first = 0, end = 0;      // program counters
  uint32_t frame_bytes = 0;         // of registers, a warp
  uint32_t local_bytes = 0;         // of .local and .param variables, a thread
  uint32_t parameter_bytes = 0;     // of them, those of its parameters and results, which come first
};

/// A parameter that a call hands over: bytes from the caller's .param variable to the callee's, or back.
struct ParameterCopy {
  uint32_t caller = 0, callee = 0;  // offsets in the functions' local memory
  uint32_t bytes = 0;
};

/// Functions that the emulator itself provides (vprintf, __assertfail): reads its parameters through exec/builtin.h.
struct CallSite;
using Builtin = void (*)(Warp &, const Instruction &, const CallSite &, uint32_t mask);

struct CallSite {
  uint32_t function = UINT32_MAX;  // Program::functions; UINT32_MAX: indirect or builtin
  Builtin builtin = nullptr;
  Slot pointer;                  // of an indirect call: u64 row
  uint32_t parameter_bytes = 0;  // ... ProgramFunction::parameter_bytes of the functions that it may call
  std::vector<ParameterCopy> arguments, results;
};

/// A row of the warp bank: a special register, or the address of a shared variable (which carries the CTA's rank).
struct WarpRow {
  ptx::Index special = ptx::none;  // special_register_names; none: shared_begin-relative offset
  uint32_t offset = 0;
  bool wide = false;  // u64 rows
  Slot slot;
};

/// A register that an instruction reads or writes, for register allocation and checks.
struct RegisterUse {
  ptx::Index reg = 0;  // of its function
  bool write = false;
  bool conditional = false;  // a read that depends on values: of accumulators, which scale-d may have ignored
};

struct Program {
  std::string name;
  std::shared_ptr<const ptx::Module> module;
  std::vector<Instruction> code;
  std::vector<Slot> lists;
  std::vector<std::vector<uint32_t>> tables;  // targets of brx.idx
  std::vector<CallSite> calls;
  std::vector<Handler> late_copies;  // of copies that wait for a wgmma first (exec/late_copy.h), by Instruction::target
  std::vector<ProgramFunction> functions;  // [0]: the entry
  std::vector<RowBlock> constants;
  std::vector<WarpRow> warp_rows;
  uint32_t warp_row_bytes = 0;

  uint32_t parameter_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_offset = 0;  // from shared_begin
  uint32_t local_bytes = 0;            // deepest call chain, a thread
  bool uses_heap = false;              // calls malloc or free
  bool recursive = false;              // or calls through pointers: local_bytes is a guess

  /// Whether handlers report to an Observer, and registers keep separate rows (see check/).
  bool observed = false;
  std::vector<uint32_t> first_use;  // by program counter, one more at the end; only if observed
  std::vector<RegisterUse> uses;

  const ptx::Instruction &source(uint32_t pc) const;
  const ptx::Function &function_at(uint32_t pc) const;
  std::string_view opcode(uint32_t pc) const;
  /// "line 1287 (cp.async.cg, common/copy.cuh:30, inlined at mma/load.cuh:128)": where an instruction is, for messages.
  std::string place(uint32_t pc) const;
};

}  // namespace fa::emu
