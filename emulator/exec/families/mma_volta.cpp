// mma.sync.m8n8k4 of f16 (PTX ISA 9.7.14.5.1), the layout of SM 7.0: four products at once, each by the eight lanes of
// a quad pair (4 q to 4 q + 3 and 16 more), any of the operands by rows or by columns.
#include <cstring>

#include "exec/dispatch.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

enum Flag : uint16_t { a_columns = 1, b_rows = 2, half_c = 4, half_d = 8 };

struct At {
  uint32_t row, column;
};

/// The row and column of element i of 8 of a quad pair's lane (0 to 7: its first four lanes, then the other four).
At float_place(uint32_t lane, uint32_t i) {
  return {(lane & 1) + (i & 2) + (lane >= 4 ? 4 : 0), (i & 4) + (lane & 2) + (i & 1)};
}
At half_place(uint32_t lane, uint32_t i) {
  return {lane, i};
}

uint16_t half_of(const Warp &warp, const Slot *slots, uint32_t lane, uint32_t i) {
  return static_cast<uint16_t>(warp.row<uint32_t>(slots[i / 2])[lane] >> i % 2 * 16);
}

/// list: registers of d (4 of f16 pairs or 8 of f32), two of a, two of b, and of c.
void multiply(Warp &warp, const Instruction &instruction, uint32_t) {
  uint32_t flags = instruction.detail;
  uint32_t d_count = flags & half_d ? 4 : 8;
  const Slot *slots_d = warp.list(instruction), *slots_a = slots_d + d_count, *slots_b = slots_a + 2,
             *slots_c = slots_b + 2;
  float computed[lanes][8];
  for (uint32_t quad = 0; quad < 4; quad++) {
    float a[8][4], b[4][8], sum[8][8];
    auto lane_of = [&](uint32_t lane) { return 4 * quad + lane % 4 + (lane >= 4 ? 16 : 0); };
    for (uint32_t lane = 0; lane < 8; lane++) {
      for (uint32_t i = 0; i < 4; i++) {
        float of_a = float_from_half(half_of(warp, slots_a, lane_of(lane), i));
        float of_b = float_from_half(half_of(warp, slots_b, lane_of(lane), i));
        (flags & a_columns ? a[i + lane / 4 * 4][lane % 4] : a[lane][i]) = of_a;
        (flags & b_rows ? b[lane % 4][i + lane / 4 * 4] : b[i][lane]) = of_b;
      }
      for (uint32_t i = 0; i < 8; i++) {
        At at = flags & half_c ? half_place(lane, i) : float_place(lane, i);
        sum[at.row][at.column] = flags & half_c ? float_from_half(half_of(warp, slots_c, lane_of(lane), i))
                                                : warp.row<float>(slots_c[i])[lane_of(lane)];
      }
    }
    for (int i = 0; i < 8; i++)
      for (int k = 0; k < 4; k++)
        for (int j = 0; j < 8; j++) sum[i][j] += a[i][k] * b[k][j];
    for (uint32_t lane = 0; lane < 8; lane++)
      for (uint32_t i = 0; i < 8; i++) {
        At at = flags & half_d ? half_place(lane, i) : float_place(lane, i);
        computed[lane_of(lane)][i] = sum[at.row][at.column];
      }
  }
  for (uint32_t lane = 0; lane < lanes; lane++)
    for (uint32_t i = 0; i < 8; i++) {
      if (flags & half_d)
        warp.row<uint16_t>(slots_d[i / 2])[2 * lane + i % 2] = half_from_float(computed[lane][i]);
      else
        warp.row<float>(slots_d[i])[lane] = computed[lane][i];
    }
}

bool decode_volta(Decoder &d) {
  Type to = d.type(0), from = d.type(3);
  bool known = d.has("m8n8k4") && d.type(1) == Type::f16 && d.type(2) == Type::f16 &&
               (to == Type::f16 || to == Type::f32) && (from == Type::f16 || from == Type::f32);
  if (!known) return false;
  d.expect_operands(4, 4);
  // The layouts of a and b are the two modifiers that may be row or col, in this order.
  std::vector<bool> by_rows;
  for (std::string_view modifier : d.opcode().modifiers)
    if (modifier == "row" || modifier == "col") by_rows.push_back(modifier == "row");
  if (by_rows.size() != 2) d.fail("the layouts of a and b are missing");
  const size_t sizes[] = {to == Type::f16 ? 4u : 8u, 2, 2, from == Type::f16 ? 4u : 8u};
  std::vector<Slot> slots;
  for (size_t i = 0; i < 4; i++) {
    if (d.elements(i).size() != sizes[i])
      d.fail("operand " + std::to_string(i + 1) + " must have " + std::to_string(sizes[i]) + " registers");
    for (const ptx::Operand &one : d.elements(i))
      slots.push_back(i == 0 ? d.destination(one, Type::b32) : d.source(one, Type::b32));
  }
  d.list(slots);
  d.out().detail = static_cast<uint16_t>((by_rows[0] ? 0 : a_columns) | (by_rows[1] ? b_rows : 0) |
                                         (from == Type::f16 ? half_c : 0) | (to == Type::f16 ? half_d : 0));
  d.converge_warp();
  return d.run(multiply);
}

const Registration registration{{"mma", decode_volta}};

}  // namespace
}  // namespace fa::emu
