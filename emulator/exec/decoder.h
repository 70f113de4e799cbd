// The interface of a family's decode function: it looks at one parsed instruction, asks for slots of its operands, and
// sets the handler. Reads and writes are recorded on the way, for register allocation and for checks.
#pragma once

#include <string>
#include <vector>

#include "exec/instruction.h"
#include "exec/program.h"
#include "exec/registry.h"
#include "ptx/module.h"

namespace fa::emu {

class Builder;

class Decoder {
 public:
  Decoder(Builder &builder, const ptx::Function &function, uint32_t number, Instruction &out);

  // The text.
  const ptx::Opcode &opcode() const { return opcode_; }
  bool has(std::string_view modifier) const { return opcode_.has(modifier); }
  ptx::Type type(size_t i = 0) const { return opcode_.type(i); }
  size_t count() const { return operands_.size(); }
  const ptx::Operand &operand(size_t i) const;
  std::span<const ptx::Operand> children(const ptx::Operand &operand) const { return function_.children_of(operand); }
  /// Elements of a vector operand, or the operand itself.
  std::span<const ptx::Operand> elements(size_t i) const;
  /// The state space that the modifiers name; shared for its ::cta and ::cluster too.
  ptx::Space space() const;
  bool in_entry() const { return function_.entry; }
  [[noreturn]] void fail(const std::string &message) const;
  void expect_operands(size_t least, size_t most) const;

  // Operands. The register must be as wide as the type.
  Slot destination(const ptx::Operand &operand, ptx::Type type);
  Slot destination(size_t i, ptx::Type type) { return destination(operand(i), type); }
  /// The predicate behind '|'; a slot that does not exist where it is absent.
  Slot second_destination(size_t i);
  Slot source(const ptx::Operand &operand, ptx::Type type);
  Slot source(size_t i, ptx::Type type) { return source(operand(i), type); }
  /// A register that may be wider than the type (of ld, st, cvt); width: its bytes.
  Slot wide_destination(const ptx::Operand &operand, ptx::Type type, uint32_t &width);
  Slot wide_source(const ptx::Operand &operand, ptx::Type type, uint32_t &width);
  /// A result that is written after the instruction has passed, at the latest by one that calls lands_late_results.
  Slot late_destination(const ptx::Operand &operand, ptx::Type type);
  /// The same for an operand that is also read, unless values say no.
  Slot late_accumulator(const ptx::Operand &operand, ptx::Type type);
  void lands_late_results();
  Slot constant(uint64_t value, uint32_t bytes);
  Slot constant_predicate(bool value);
  /// The number of an immediate operand; fails for others.
  int64_t immediate(size_t i) const;
  /// Reads operand i, an address, into base, a, imm and space of the instruction.
  void address(size_t i);
  /// As address, for a second one: displacement and slot (u32 or u64 rows: base) given back.
  struct Address {
    AddressBase base = AddressBase::none;
    Slot row;
    int64_t displacement = 0;
    ptx::Space space = ptx::Space::generic;
  };
  Address address_of(const ptx::Operand &operand);
  /// The same of global memory: a row of 64 bits, for a variable a constant one.
  Address wide_address_of(const ptx::Operand &operand);

  // The result.
  Instruction &out() { return out_; }
  void list(const std::vector<Slot> &slots);
  void converge_warp() { converge(Converge::warp); }
  void converge_members(const ptx::Operand &mask);
  void pausing() { out_.flow = Flow::pausing; }
  /// Whether to choose handlers that report to an Observer.
  bool observed() const;
  /// Sets the handler: the second where the program is observed. Returns true, for `return d.run(...)`.
  bool run(Handler handler) { return out_.run = handler, true; }
  bool run(Handler plain, Handler watched) { return out_.run = observed() ? watched : plain, true; }

  Builder &builder() { return builder_; }
  const ptx::Function &function() const { return function_; }

 private:
  void converge(Converge which) {
    out_.converge = which;
    if (out_.flow == Flow::plain) out_.flow = Flow::converging;
  }
  Slot register_slot(const ptx::Operand &operand, bool write);
  uint32_t width_of(const ptx::Operand &operand) const;

  Builder &builder_;
  const ptx::Function &function_;
  const ptx::Instruction &instruction_;
  const ptx::Opcode &opcode_;
  std::span<const ptx::Operand> operands_;
  Instruction &out_;
};

/// Bits of a literal as a value of the type: 1.0 becomes 0x3f800000 for f32, for example.
uint64_t literal_bits(const ptx::Operand &immediate, ptx::Type type);

}  // namespace fa::emu
