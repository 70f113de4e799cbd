// tcgen05.mma and tcgen05.mma.ws, dense (PTX ISA 9.7.16.10): every thread that executes one starts one. Which matrices
// a collector keeps makes no difference to results.
#include <vector>

#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/tensor_product.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// The form in the text, kept in Instruction::detail and imm (displacements of the addresses of D and A).
struct Form {
  MmaKind kind = MmaKind::f16;
  bool pair = false, ws = false, a_in_tensor_memory = false;
  uint8_t scale = 0;

  uint16_t bits() const {
    return static_cast<uint16_t>(static_cast<uint16_t>(kind) | pair << 2 | ws << 3 | a_in_tensor_memory << 4 |
                                 scale << 5);
  }
  static Form of(uint16_t bits) {
    return {static_cast<MmaKind>(bits & 3), (bits >> 2 & 1) != 0, (bits >> 3 & 1) != 0, (bits >> 4 & 1) != 0,
            static_cast<uint8_t>(bits >> 5 & 15)};
  }
};

enum Row : uint32_t { d_row, a_row, b_row, descriptor_row, accumulate_row, first_disabled_row };

MatrixDescriptor layout_of(Warp &warp, const Instruction &instruction, uint32_t lane, Slot slot) {
  MatrixDescriptor layout;
  std::string wrong = read_tcgen05_descriptor(warp.row<uint64_t>(slot)[lane], layout);
  if (!wrong.empty())
    fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane), std::move(wrong));
  return layout;
}

TensorProduct::Operands operands_of(Warp &warp, const Instruction &instruction, uint32_t lane) {
  Form form = Form::of(instruction.detail);
  const Slot *slots = warp.list(instruction);
  TensorProduct::Operands result;
  result.group = form.pair ? 2 : 1;
  result.ws = form.ws;
  result.scale = form.scale;
  uint32_t bits = warp.row<uint32_t>(slots[descriptor_row])[lane];
  std::string wrong = read_instruction_descriptor(bits, form.kind, result.group, form.ws, result.shape);
  if (!wrong.empty())
    fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane), std::move(wrong));
  uint32_t d_displacement = static_cast<uint32_t>(instruction.imm);
  uint32_t a_displacement = static_cast<uint32_t>(instruction.imm >> 32);
  result.d = TensorAddress(warp.row<uint32_t>(slots[d_row])[lane] + d_displacement);
  result.a_in_tensor_memory = form.a_in_tensor_memory;
  if (form.a_in_tensor_memory) {
    result.a_address = TensorAddress(warp.row<uint32_t>(slots[a_row])[lane] + a_displacement);
    if (result.shape.a_transposed)
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
            "A's major dimension (bit 15 of the instruction descriptor) is 1, expected 0, K, for A in tensor memory");
  } else {
    result.a = layout_of(warp, instruction, lane, slots[a_row]);
  }
  result.b = layout_of(warp, instruction, lane, slots[b_row]);
  result.accumulate = *warp.row<uint32_t>(slots[accumulate_row]) >> lane & 1;
  for (uint32_t i = first_disabled_row; i < instruction.list_count; i++)
    result.disabled[i - first_disabled_row] = warp.row<uint32_t>(slots[i])[lane];
  return result;
}

void issue(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Form form = Form::of(instruction.detail);
  int group = form.pair ? 2 : 1;
  tensor_memory(warp, instruction, *warp.cta, group);
  if (form.pair) tensor_memory(warp, instruction, peer_of(warp, instruction), group);
  for (uint32_t lane = 0; lane < lanes; lane++)
    if (mask >> lane & 1)
      start(std::make_shared<TensorProduct>(warp, instruction, lane, operands_of(warp, instruction, lane)));
}

bool kind_of(Decoder &d, MmaKind &kind) {
  if (d.has("kind::f16")) return kind = MmaKind::f16, true;
  if (d.has("kind::tf32")) return kind = MmaKind::tf32, true;
  if (d.has("kind::f8f6f4")) return kind = MmaKind::f8f6f4, true;
  if (d.has("kind::i8")) return kind = MmaKind::i8, true;
  return false;
}

/// An address in tensor memory: its row, and its displacement.
Slot tensor_address(Decoder &d, size_t i, uint32_t &displacement) {
  Decoder::Address address = d.address_of(d.operand(i));
  if (address.base != AddressBase::row32) d.fail("an address in tensor memory is a register of 32 bits");
  displacement = static_cast<uint32_t>(address.displacement);
  return address.row;
}

/// The optional operands behind the instruction descriptor: lanes to leave alone, and D's scale at the end.
void decode_rest(Decoder &d, Form &form, std::vector<Slot> &slots) {
  size_t at = 4;
  std::vector<Slot> disabled;
  if (d.operand(at).kind == ptx::OperandKind::vector) {
    size_t expected = form.pair ? 8 : 4;
    if (form.ws || d.elements(at).size() != expected)
      d.fail("disable-output-lane is a vector of " + std::to_string(expected) + " registers, and not for .ws");
    for (const ptx::Operand &one : d.elements(at)) disabled.push_back(d.source(one, Type::b32));
    at++;
  }
  slots.push_back(d.source(at++, Type::pred));
  slots.insert(slots.end(), disabled.begin(), disabled.end());
  if (at == d.count()) return;
  if (form.ws) d.fail("a zero-column mask is not emulated");
  int64_t scale = d.immediate(at++);
  bool scalable = form.kind == MmaKind::f16 || form.kind == MmaKind::tf32;
  if (!scalable || scale < 0 || scale > 15)
    d.fail("scale-input-d is " + std::to_string(scale) + ", expected 0 to 15, with kind::f16 or kind::tf32");
  form.scale = static_cast<uint8_t>(scale);
  d.expect_operands(at, at);
}

bool decode(Decoder &d) {
  Form form;
  if (!d.has("mma") || d.has("sp") || d.has("ashift") || !kind_of(d, form.kind)) return false;
  form.pair = d.has("cta_group::2");
  form.ws = d.has("ws");
  if (!form.pair && !d.has("cta_group::1")) d.fail("expected .cta_group::1 or .cta_group::2");
  if (form.ws && form.pair) d.fail("tcgen05.mma.ws is for cta_group::1");
  d.expect_operands(5, 7);
  form.a_in_tensor_memory = d.operand(1).kind == ptx::OperandKind::address;
  uint32_t d_displacement = 0, a_displacement = 0;
  std::vector<Slot> slots{tensor_address(d, 0, d_displacement)};
  slots.push_back(form.a_in_tensor_memory ? tensor_address(d, 1, a_displacement) : d.source(1, Type::b64));
  slots.push_back(d.source(2, Type::b64));
  slots.push_back(d.source(3, Type::b32));
  decode_rest(d, form, slots);
  d.list(slots);
  d.out().detail = form.bits();
  d.out().imm = static_cast<int64_t>(uint64_t{a_displacement} << 32 | d_displacement);
  return d.run(issue);
}

const Registration registration{{"tcgen05", decode}};

}  // namespace
}  // namespace fa::emu
