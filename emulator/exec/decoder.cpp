// Operands to slots.
#include "exec/decoder.h"

#include <algorithm>
#include <bit>

#include "exec/builder.h"
#include "exec/number.h"
#include "exec/special.h"
#include "memory/windows.h"

namespace fa::emu {

using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

namespace {

/// Bytes of the registers that hold such values; 0: predicates.
uint32_t natural_width(Type type) {
  return type == Type::pred ? 0 : std::max(ptx::bytes_of(type), 2u);
}

}  // namespace

Decoder::Decoder(Builder &builder, const ptx::Function &function, uint32_t number, Instruction &out)
    : builder_(builder),
      function_(function),
      instruction_(function.instructions[number]),
      opcode_(builder.module().opcodes[instruction_.opcode]),
      operands_(function.operands_of(instruction_)),
      out_(out) {}

void Decoder::fail(const std::string &message) const {
  throw BuildFailure{instruction_.line, message};
}

const ptx::Operand &Decoder::operand(size_t i) const {
  if (i >= operands_.size())
    fail("operand " + std::to_string(i + 1) + " of " + std::string(opcode_.text) + " is missing");
  return operands_[i];
}

void Decoder::expect_operands(size_t least, size_t most) const {
  if (operands_.size() < least || operands_.size() > most)
    fail(std::string(opcode_.text) + " with " + std::to_string(operands_.size()) + " operands");
}

std::span<const ptx::Operand> Decoder::elements(size_t i) const {
  const ptx::Operand &whole = operand(i);
  return whole.kind == OperandKind::vector ? children(whole) : std::span<const ptx::Operand>(&whole, 1);
}

bool Decoder::observed() const {
  return builder_.observed();
}

Space Decoder::space() const {
  for (std::string_view modifier : opcode_.modifiers) {
    std::string_view base = modifier.substr(0, modifier.find(':'));
    if (base == "global") return Space::global;
    if (base == "shared") return Space::shared;
    if (base == "local") return Space::local;
    if (base == "param") return Space::param;
    if (base == "const") return Space::constant;
  }
  return Space::generic;
}

uint32_t Decoder::width_of(const ptx::Operand &operand) const {
  return natural_width(builder_.register_type(operand.index));
}

Slot Decoder::register_slot(const ptx::Operand &operand, bool write) {
  builder_.use(operand.index, write);
  return Slot::of_register(operand.index);
}

Slot Decoder::wide_destination(const ptx::Operand &operand, Type type, uint32_t &width) {
  if (operand.kind == OperandKind::sink) {
    ptx::Index scratch = builder_.scratch_register(type);
    builder_.use(scratch, true);
    width = natural_width(type);
    return Slot::of_register(scratch);
  }
  if (operand.kind != OperandKind::reg) fail("a result needs a register, got '" + std::string(operand.text) + "'");
  width = width_of(operand);
  return register_slot(operand, true);
}

Slot Decoder::destination(const ptx::Operand &operand, Type type) {
  uint32_t width = 0;
  Slot slot = wide_destination(operand, type, width);
  if (width != natural_width(type))
    fail("register " + std::string(operand.text) + " does not have the width of ." + std::string(ptx::name_of(type)));
  return slot;
}

Slot Decoder::late_destination(const ptx::Operand &operand, Type type) {
  Slot slot = destination(operand, type);
  builder_.use_late(slot.bits >> 2, false);
  return slot;
}

Slot Decoder::late_accumulator(const ptx::Operand &operand, Type type) {
  if (operand.kind == OperandKind::reg) builder_.use(operand.index, false, true);
  Slot slot = destination(operand, type);
  builder_.use_late(slot.bits >> 2, true);
  return slot;
}

void Decoder::lands_late_results() {
  builder_.landing();
}

Slot Decoder::second_destination(size_t i) {
  ptx::Index second = operand(i).second;
  if (second == ptx::none) return {};
  if (builder_.register_type(second) != Type::pred) fail("the register behind '|' is no predicate");
  builder_.use(second, true);
  return Slot::of_register(second);
}

uint64_t literal_bits(const ptx::Operand &immediate, Type type) {
  uint64_t bits = static_cast<uint64_t>(immediate.value);
  if (immediate.type == Type::none) return bits;
  double value =
      immediate.type == Type::f64 ? std::bit_cast<double>(bits) : std::bit_cast<float>(static_cast<uint32_t>(bits));
  switch (type) {
    case Type::f32:
      return immediate.type == Type::f32 ? bits : std::bit_cast<uint32_t>(static_cast<float>(value));
    case Type::f64:
      return std::bit_cast<uint64_t>(value);
    case Type::f16:
      return half_from_float(static_cast<float>(value));
    case Type::bf16:
      return bfloat_from_float(static_cast<float>(value));
    default:
      return bits;
  }
}

Slot Decoder::constant(uint64_t value, uint32_t bytes) {
  return builder_.constant(value, bytes);
}
Slot Decoder::constant_predicate(bool value) {
  return builder_.constant(value ? all_lanes : 0, 4);
}

Slot Decoder::wide_source(const ptx::Operand &operand, Type type, uint32_t &width) {
  if (operand.kind == OperandKind::reg) {
    width = width_of(operand);
    return register_slot(operand, false);
  }
  width = natural_width(type);
  if (type == Type::pred) {
    if (operand.kind != OperandKind::immediate) fail("expected a predicate, got " + std::string(operand.text));
    return constant_predicate(operand.value != 0);
  }
  switch (operand.kind) {
    case OperandKind::immediate:
      return constant(literal_bits(operand, type), width);
    case OperandKind::special:
      if (is_clock(operand.index))
        fail("%" + std::string(ptx::special_register_names()[operand.index]) + " can only be read by mov");
      return builder_.warp_row(operand.index, 0, width == 8);
    case OperandKind::function:
      return constant(memory::function_window | operand.index, width);
    case OperandKind::variable: {
      const ptx::Variable &variable = builder_.module().variables[operand.index];
      uint64_t at = builder_.place(operand.index) + static_cast<uint64_t>(operand.value);
      if (variable.space == Space::shared) return builder_.warp_row(ptx::none, static_cast<uint32_t>(at), width == 8);
      bool in_frame = variable.space == Space::local ||
                      (variable.space == Space::param && !builder_.is_entry_parameter(operand.index));
      if (in_frame) fail("the address of " + std::string(operand.text) + " can only be taken by mov");
      return constant(at, width);
    }
    default:
      fail("operand '" + std::string(operand.text) + "' is no value");
  }
}

Slot Decoder::source(const ptx::Operand &operand, Type type) {
  uint32_t width = 0;
  Slot slot = wide_source(operand, type, width);
  if (width != natural_width(type))
    fail("register " + std::string(operand.text) + " does not have the width of ." + std::string(ptx::name_of(type)));
  return slot;
}

int64_t Decoder::immediate(size_t i) const {
  const ptx::Operand &number = operand(i);
  if (number.kind != OperandKind::immediate || number.type != Type::none)
    fail("operand " + std::to_string(i + 1) + " must be a number");
  return number.value;
}

void Decoder::converge_members(const ptx::Operand &mask) {
  out_.members = source(mask, Type::b32);
  converge(Converge::members);
}

void Decoder::list(const std::vector<Slot> &slots) {
  auto &lists = builder_.program().lists;
  out_.list = static_cast<uint32_t>(lists.size());
  out_.list_count = static_cast<uint16_t>(slots.size());
  lists.insert(lists.end(), slots.begin(), slots.end());
}

Decoder::Address Decoder::address_of(const ptx::Operand &operand) {
  if (operand.kind != OperandKind::address) fail("expected an address in brackets");
  const ptx::Operand &base = children(operand)[0];
  Address address;
  address.space = space();
  address.displacement = operand.value;
  if (address.space == Space::param && !function_.entry) address.space = Space::local;
  switch (base.kind) {
    case OperandKind::reg:
      address.base = width_of(base) == 8 ? AddressBase::row64 : AddressBase::row32;
      if (width_of(base) < 4) fail("an address needs a register of 32 or 64 bits");
      address.row = register_slot(base, false);
      break;
    case OperandKind::variable: {
      const ptx::Variable &variable = builder_.module().variables[base.index];
      uint64_t at = builder_.place(base.index);
      if (variable.space == Space::shared) {
        address.base = AddressBase::row32;
        address.row = builder_.warp_row(ptx::none, static_cast<uint32_t>(at), false);
        break;
      }
      address.displacement += static_cast<int64_t>(at);
      bool in_frame = variable.space == Space::local ||
                      (variable.space == Space::param && !builder_.is_entry_parameter(base.index));
      if (!in_frame) break;
      address.base = AddressBase::frame;
      address.space = Space::local;
      break;
    }
    default:
      address.displacement += base.value;
  }
  return address;
}

Decoder::Address Decoder::wide_address_of(const ptx::Operand &operand) {
  Address address = address_of(operand);
  if (address.base == AddressBase::none)
    address = {AddressBase::row64, constant(static_cast<uint64_t>(address.displacement), 8), 0, address.space};
  if (address.base != AddressBase::row64) fail("global memory is addressed by 64-bit registers and variables");
  return address;
}

void Decoder::address(size_t i) {
  Address address = address_of(operand(i));
  out_.base = address.base;
  out_.a = address.row;
  out_.imm = address.displacement;
  out_.space = address.space;
}

}  // namespace fa::emu
