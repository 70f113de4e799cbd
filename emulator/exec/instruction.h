// A decoded instruction: a handler and where its operands are. One cache line; larger operands are in Program's lists.
#pragma once

#include <cstdint>

#include "ptx/module.h"

namespace fa::emu {

struct Warp;
struct Instruction;

/// Executes an instruction for the lanes of mask, which is never 0.
using Handler = void (*)(Warp &, const Instruction &, uint32_t mask);

constexpr uint32_t all_lanes = 0xffffffff;
constexpr uint32_t lanes = 32;

/// Where an operand's row of 32 values is: an offset into one of three banks, the bank in the two lowest bits. Rows
/// hold u16, u32, u64 or 16-byte values by the register's width; a predicate's row is one u32, a bit a lane.
struct Slot {
  enum Bank : uint32_t {
    frame = 0,            // registers of the running function
    constant = 1,         // immediates, one row each, shared by all warps
    warp = 2,             // special registers
    register_number = 3,  // only while decoding: a register that has no place yet
  };
  uint32_t bits = UINT32_MAX;

  static constexpr Slot at(uint32_t offset, Bank bank) { return {offset | bank}; }
  static constexpr Slot of_register(ptx::Index number) { return {number << 2 | register_number}; }
  constexpr bool exists() const { return bits != UINT32_MAX; }
  constexpr bool unplaced() const { return exists() && (bits & 3) == register_number; }
  constexpr uint32_t offset() const { return bits & ~3u; }
  constexpr Bank bank() const { return static_cast<Bank>(bits & 3); }
};

/// The properties of an instruction that the interpreter's loop itself needs.
enum class Flow : uint8_t {
  plain,       // the handler does everything
  converging,  // the same, once the lanes that Converge names are there
  pausing,     // the handler may set Warp::pause
  branch,
  branch_table,
  call,
  ret,
  exit,
};

/// Which lanes must arrive together before the instruction may run.
enum class Converge : uint8_t {
  no,
  warp,     // all that are alive (.aligned)
  members,  // those of the member mask in Instruction::members
};

/// How a memory operand's addresses come about.
enum class AddressBase : uint8_t { none, row32, row64, frame };

struct alignas(64) Instruction {
  Handler run = nullptr;
  Slot dst, a, b, c;
  int64_t imm = 0;    // an immediate; of memory instructions the displacement
  Slot guard;         // always exists: a row of ones where the text has no guard
  Slot members;       // member mask of Converge::members
  uint32_t list = 0;  // first of further slots in Program::lists
  uint16_t list_count = 0;
  uint16_t detail = 0;  // the family's own
  uint32_t target = 0;  // Flow's: a program counter, or a number in Program::tables or Program::calls
  Flow flow = Flow::plain;
  Converge converge = Converge::no;
  AddressBase base = AddressBase::none;
  ptx::Space space = ptx::Space::generic;
  bool guard_negated = false;
  bool joins_anywhere = false;  // bar.warp.sync: lanes may arrive at different instructions
  /// How many instructions from here on have no guard and only a handler: all lanes of a group run them, one after the
  /// other. straight_together: with those that converge, for a group of all lanes that are alive.
  uint16_t straight = 0, straight_together = 0;
  bool lands_at_once = false;  // its late results are used before an instruction that waits for them

  uint32_t guard_flip() const { return guard_negated ? all_lanes : 0; }
};
static_assert(sizeof(Instruction) == 64);

}  // namespace fa::emu
