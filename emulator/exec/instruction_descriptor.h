// The instruction descriptor of tcgen05.mma: 32 bits that hold shape and types (PTX ISA 9.7.16.4, "Instruction
// descriptor").
#pragma once

#include <cstdint>
#include <string>

#include "exec/operand_tile.h"

namespace fa::emu {

enum class MmaKind : uint8_t { f16, tf32, f8f6f4, i8 };
enum class MmaResult : uint8_t { f16, f32, s32 };

struct MmaShape {
  uint32_t rows = 128, columns = 64;  // of D; with cta_group::2 of both CTAs together
  Element a = Element::f16, b = Element::f16;
  MmaResult result = MmaResult::f32;
  bool a_transposed = false, b_transposed = false;
  bool negated = false;  // one of a and b is
  bool saturated = false;
};

/// Its error (field, got, expected), or nothing. group: CTAs, 1 or 2; ws: of tcgen05.mma.ws.
std::string read_instruction_descriptor(uint32_t bits, MmaKind kind, int group, bool ws, MmaShape &out);

}  // namespace fa::emu
