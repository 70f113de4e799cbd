// The form of wgmma.mma_async, and how an Instruction keeps it.
#pragma once

#include <cstring>

#include "exec/decoder.h"
#include "exec/operand_tile.h"

namespace fa::emu::wgmma {

enum class Accumulator : uint8_t { f32, f16, s32 };

/// The form in the text of an instruction, kept in Instruction::imm.
struct Form {
  uint16_t columns = 0;
  Element a = Element::f16, b = Element::f16;
  Accumulator accumulator = Accumulator::f32;
  bool a_in_registers : 1 = false;
  bool a_transposed : 1 = false;
  bool b_transposed : 1 = false;
  bool negated : 1 = false;  // one of a and b is
  bool saturated : 1 = false;
};
static_assert(sizeof(Form) <= sizeof(int64_t));

inline Form form_of(const Instruction &instruction) {
  Form form;
  std::memcpy(static_cast<void *>(&form), &instruction.imm, sizeof form);
  return form;
}

/// Registers of the accumulators: f32 and s32 one value a lane each, f16 two.
inline uint32_t accumulator_registers(const Form &form) {
  return form.columns / (form.accumulator == Accumulator::f16 ? 4 : 2);
}

/// Decodes everything but the handler. a, b: descriptors. c: scale-d. list: accumulators, then the fragment of A if it
/// is in registers. False: no form that exists.
bool decode_product(Decoder &d);

}  // namespace fa::emu::wgmma
