// Matrices between shared memory and registers: ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15 to 17). A matrix is
// rows of 16 bytes, each at an address that one lane gives.
#include <algorithm>
#include <cstring>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/halves.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// Where byte b of a lane's register r comes from or goes to: a row of the matrix, as its giver is numbered among all,
/// and a byte of it.
struct Place {
  uint32_t row, byte;
};
using PlaceOf = Place (*)(uint32_t lane, uint32_t r, uint32_t b);

/// 8 x 8 elements of 16 bits a register: lane 4 i + j has elements 2 j and 2 j + 1 of row i.
Place plain(uint32_t lane, uint32_t r, uint32_t b) {
  return {8 * r + lane / 4, lane % 4 * 4 + b};
}
/// ... of column i.
Place transposed16(uint32_t lane, uint32_t r, uint32_t b) {
  return {8 * r + lane % 4 * 2 + b / 2, lane / 4 * 2 + b % 2};
}
/// ldmatrix .m16n16.trans.b8: two registers a matrix of 16 rows; lane 4 i + j has columns i and i + 8 of the rows from
/// 4 j on, two rows a register.
Place transposed8(uint32_t lane, uint32_t r, uint32_t b) {
  return {16 * (r / 2) + lane % 4 * 4 + r % 2 * 2 + b % 2, lane / 4 + 8 * (b / 2)};
}
/// stmatrix .m16n8.trans.b8: a register is a fragment of mma's result; its columns become rows.
Place stored8(uint32_t lane, uint32_t r, uint32_t b) {
  return {8 * r + lane % 4 * 2 + b % 2, lane / 4 + 8 * (b / 2)};
}

/// Lanes whose addresses are used.
uint32_t givers_of(uint32_t rows) {
  return rows == 32 ? all_lanes : (1u << rows) - 1;
}

/// detail: rows that are read.
template <PlaceOf place, bool observed>
void load_matrices(Warp &warp, const Instruction &instruction, uint32_t) {
  uint32_t count = instruction.list_count, givers = givers_of(instruction.detail);
  Resolved memory;
  resolve(warp, instruction, givers, 16, 16, memory);
  if constexpr (observed) observe(warp, instruction, AccessKind::read, givers, 16, memory);
  uint8_t computed[4][lanes * 4];
  for (uint32_t r = 0; r < count; r++) {
    if constexpr (place == plain) {
      for (uint32_t row = 0; row < 8; row++) std::memcpy(computed[r] + row * 16, memory.at[8 * r + row], 16);
    } else if constexpr (place == transposed16) {
      Halves rows[8];
      for (uint32_t row = 0; row < 8; row++) std::memcpy(&rows[row], memory.at[8 * r + row], 16);
      transpose(rows);
      std::memcpy(computed[r], rows, sizeof rows);
    } else {
      for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint32_t b = 0; b < 4; b++) {
          Place from = place(lane, r, b);
          computed[r][lane * 4 + b] = memory.at[from.row][from.byte];
        }
    }
  }
  for (uint32_t r = 0; r < count; r++) std::memcpy(warp.row<uint32_t>(warp.list(instruction)[r]), computed[r], 128);
}

template <PlaceOf place, bool observed>
void store_matrices(Warp &warp, const Instruction &instruction, uint32_t) {
  uint32_t givers = givers_of(instruction.detail);
  Resolved memory;
  resolve(warp, instruction, givers, 16, 16, memory);
  if constexpr (observed) observe(warp, instruction, AccessKind::write, givers, 16, memory);
  for (uint32_t r = 0; r < instruction.list_count; r++) {
    const uint8_t *source = warp.row<uint8_t>(warp.list(instruction)[r]);
    if constexpr (place == plain) {
      for (uint32_t row = 0; row < 8; row++) std::memcpy(memory.at[8 * r + row], source + row * 16, 16);
    } else if constexpr (place == transposed16) {
      Halves rows[8];
      std::memcpy(rows, source, sizeof rows);
      transpose(rows);
      for (uint32_t row = 0; row < 8; row++) std::memcpy(memory.at[8 * r + row], &rows[row], 16);
    } else {
      for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint32_t b = 0; b < 4; b++) {
          Place to = place(lane, r, b);
          memory.at[to.row][to.byte] = source[lane * 4 + b];
        }
    }
  }
}

/// ldmatrix .m8n16 with elements of fewer bits in memory: 16 in the first 2 * bits bytes of a row become a byte each.
template <uint32_t bits, bool observed>
void load_expanded(Warp &warp, const Instruction &instruction, uint32_t) {
  uint32_t count = instruction.list_count, givers = givers_of(instruction.detail);
  Resolved memory;
  resolve(warp, instruction, givers, 16, 16, memory);
  if constexpr (observed) observe(warp, instruction, AccessKind::read, givers, 16, memory);
  uint8_t computed[4][lanes * 4];
  for (uint32_t r = 0; r < count; r++)
    for (uint32_t row = 0; row < 8; row++)
      for (uint32_t element = 0; element < 16; element++) {
        uint32_t at = element * bits;
        const uint8_t *from = memory.at[8 * r + row] + at / 8;
        uint32_t two = at % 8 + bits > 8 ? from[0] | from[1] << 8 : from[0];
        computed[r][row * 16 + element] = static_cast<uint8_t>(two >> at % 8 & ((1u << bits) - 1));
      }
  for (uint32_t r = 0; r < count; r++) std::memcpy(warp.row<uint32_t>(warp.list(instruction)[r]), computed[r], 128);
}

/// registers: of all matrices; rows: of all matrices.
void decode_operands(Decoder &d, bool loading, size_t registers, size_t rows) {
  d.expect_operands(2, 2);
  size_t address = loading ? 1 : 0, data = loading ? 0 : 1;
  if (d.elements(data).size() != registers) d.fail(std::to_string(registers) + " registers are needed");
  std::vector<Slot> slots;
  for (const ptx::Operand &element : d.elements(data))
    slots.push_back(loading ? d.destination(element, Type::b32) : d.source(element, Type::b32));
  d.address(address);
  d.list(slots);
  d.out().detail = static_cast<uint16_t>(rows);
  d.converge_warp();
}

bool decode_ldmatrix(Decoder &d) {
  size_t count = d.has("x4") ? 4 : d.has("x2") ? 2 : 1;
  if (d.has("m8n8") && d.type() == Type::b16) {
    decode_operands(d, true, count, 8 * count);
    return d.has("trans") ? d.run(load_matrices<transposed16, false>, load_matrices<transposed16, true>)
                          : d.run(load_matrices<plain, false>, load_matrices<plain, true>);
  }
  bool four = d.has("b4x16_p64"), six = d.has("b6x16_p32");
  if (d.has("m8n16") && (four || six)) {
    decode_operands(d, true, count, 8 * count);
    return four ? d.run(load_expanded<4, false>, load_expanded<4, true>)
                : d.run(load_expanded<6, false>, load_expanded<6, true>);
  }
  if (!d.has("m16n16") || !d.has("trans") || d.type() != Type::b8 || count > 2) return false;
  decode_operands(d, true, 2 * count, 16 * count);
  return d.run(load_matrices<transposed8, false>, load_matrices<transposed8, true>);
}

bool decode_stmatrix(Decoder &d) {
  size_t count = d.has("x4") ? 4 : d.has("x2") ? 2 : 1;
  bool bytes = d.has("m16n8") && d.has("trans") && d.type() == Type::b8;
  if (!bytes && !(d.has("m8n8") && d.type() == Type::b16)) return false;
  decode_operands(d, false, count, 8 * count);
  if (bytes) return d.run(store_matrices<stored8, false>, store_matrices<stored8, true>);
  return d.has("trans") ? d.run(store_matrices<transposed16, false>, store_matrices<transposed16, true>)
                        : d.run(store_matrices<plain, false>, store_matrices<plain, true>);
}

void move_transposed(Warp &warp, const Instruction &instruction, uint32_t) {
  Halves rows[8];
  std::memcpy(rows, warp.row<uint32_t>(instruction.a), sizeof rows);
  transpose(rows);
  std::memcpy(warp.row<uint32_t>(instruction.dst), rows, sizeof rows);
}

bool decode_movmatrix(Decoder &d) {
  if (!d.has("m8n8") || !d.has("trans") || d.type() != Type::b16) return false;
  d.expect_operands(2, 2);
  d.out().a = d.source(1, Type::b32);
  d.out().dst = d.destination(0, Type::b32);
  d.converge_warp();
  return d.run(move_transposed);
}

const Registration registration{
    {"ldmatrix", decode_ldmatrix}, {"stmatrix", decode_stmatrix}, {"movmatrix", decode_movmatrix}};

}  // namespace
}  // namespace fa::emu
