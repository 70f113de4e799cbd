// The text of wgmma.mma_async (PTX ISA 9.7.15.5.2): shapes, types and immediates that go together.
#include <vector>

#include "exec/families/wgmma.h"

namespace fa::emu::wgmma {
namespace {

using ptx::Type;

bool element_of(Type type, Element &element) {
  switch (type) {
    case Type::f16:
      return element = Element::f16, true;
    case Type::bf16:
      return element = Element::bf16, true;
    case Type::tf32:
      return element = Element::tf32, true;
    case Type::e4m3:
      return element = Element::e4m3, true;
    case Type::e5m2:
      return element = Element::e5m2, true;
    case Type::s8:
      return element = Element::s8, true;
    case Type::u8:
      return element = Element::u8, true;
    default:
      return false;
  }
}

/// n of a modifier m64nNkK; K follows from the elements' size.
uint16_t columns_of(Decoder &d, uint32_t depth) {
  std::string end(1, 'k');
  end += std::to_string(depth);
  for (std::string_view modifier : d.opcode().modifiers) {
    if (!modifier.starts_with("m64n")) continue;
    if (!modifier.ends_with(end)) d.fail("the shape of these types ends with " + end);
    std::string digits(modifier.substr(4, modifier.size() - 4 - end.size()));
    int n = std::atoi(digits.c_str());
    if (n < 8 || n > 256 || n % 8 != 0) d.fail("n is " + digits + ", expected a multiple of 8 from 8 to 256");
    return static_cast<uint16_t>(n);
  }
  d.fail("wgmma.mma_async without a shape m64nNkK");
}

void check_types(Decoder &d, const Form &form) {
  bool integers = form.a >= Element::s8;
  bool same = form.a == form.b || depth_of(form.a) == 32;
  bool halves = form.a == Element::f16 || form.a == Element::e4m3 || form.a == Element::e5m2;
  bool fits = form.accumulator == Accumulator::s32   ? integers
              : form.accumulator == Accumulator::f16 ? halves
                                                     : !integers;
  if (!same || depth_of(form.a) != depth_of(form.b) || integers != (form.b >= Element::s8) || !fits)
    d.fail("wgmma has no product of these types");
  if (integers && form.columns > 32 && form.columns % 16 != 0)
    d.fail("n of integers is 8, 24 or a multiple of 16, got " + std::to_string(form.columns));
}

/// -1 and 1, as the imm-scale operands are.
bool negative(Decoder &d, size_t i) {
  int64_t scale = d.immediate(i);
  if (scale != 1 && scale != -1) d.fail("imm-scale is " + std::to_string(scale) + ", expected 1 or -1");
  return scale < 0;
}

bool flag(Decoder &d, size_t i) {
  int64_t value = d.immediate(i);
  if (value != 0 && value != 1) d.fail("imm-trans is " + std::to_string(value) + ", expected 0 or 1");
  return value != 0;
}

void read_immediates(Decoder &d, Form &form) {
  if (form.a >= Element::s8) return d.expect_operands(4, 4);
  bool sixteen = bytes_of(form.a) == 2;
  size_t count = !sixteen ? 6 : form.a_in_registers ? 7 : 8;
  d.expect_operands(count, count);
  form.negated = negative(d, 4) != negative(d, 5);
  if (!sixteen) return;
  form.b_transposed = flag(d, count - 1);
  if (!form.a_in_registers) form.a_transposed = flag(d, 6);
}

}  // namespace

bool decode_product(Decoder &d) {
  Form form;
  Type accumulator = d.type(0);
  if (!element_of(d.type(1), form.a) || !element_of(d.type(2), form.b)) return false;
  if (accumulator != Type::f32 && accumulator != Type::f16 && accumulator != Type::s32) return false;
  form.accumulator = accumulator == Type::f32   ? Accumulator::f32
                     : accumulator == Type::f16 ? Accumulator::f16
                                                : Accumulator::s32;
  form.columns = columns_of(d, depth_of(form.a));
  form.saturated = d.has("satfinite");
  check_types(d, form);
  form.a_in_registers = d.operand(1).kind == ptx::OperandKind::vector;
  read_immediates(d, form);
  std::vector<Slot> slots;
  if (d.elements(0).size() != accumulator_registers(form))
    d.fail("the accumulators are " + std::to_string(accumulator_registers(form)) + " registers, got " +
           std::to_string(d.elements(0).size()));
  if (form.a_in_registers && d.elements(1).size() != 4) d.fail("A is 4 registers");
  for (const ptx::Operand &one : d.elements(0)) slots.push_back(d.late_accumulator(one, Type::b32));
  if (form.a_in_registers)
    for (const ptx::Operand &one : d.elements(1)) slots.push_back(d.source(one, Type::b32));
  else
    d.out().a = d.source(1, Type::b64);
  d.out().b = d.source(2, Type::b64);
  d.out().c = d.source(3, Type::pred);
  std::memcpy(&d.out().imm, &form, sizeof form);
  d.list(slots);
  d.converge_warp();
  return true;
}

}  // namespace fa::emu::wgmma
