// Tensor cores as warps use them: ldmatrix, stmatrix, mma.sync of f16 and bf16 into f32.
#include <cstring>
#include <type_traits>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// Rows of 16 bytes: lanes 8m to 8m+7 give the rows of matrix m. list: a register a matrix.
template <bool transposed, bool observed>
void load_matrices(Warp &warp, const Instruction &instruction, uint32_t) {
  uint32_t count = instruction.list_count;
  uint32_t givers = count == 4 ? all_lanes : (1u << 8 * count) - 1;
  Resolved memory;
  resolve(warp, instruction, givers, 16, 16, memory);
  if constexpr (observed) observe(warp, instruction, AccessKind::read, givers, 16, memory);
  uint32_t computed[4][lanes];
  for (uint32_t m = 0; m < count; m++) {
    uint8_t *const *rows = memory.at + 8 * m;
    for (uint32_t row = 0; row < 8; row++) {
      if constexpr (!transposed) {
        std::memcpy(&computed[m][row * 4], rows[row], 16);
      } else {
        // Element (row, column) goes to lane 4 column + row / 2, half row % 2.
        uint16_t elements[8];
        std::memcpy(elements, rows[row], 16);
        for (uint32_t column = 0; column < 8; column++)
          std::memcpy(reinterpret_cast<uint8_t *>(&computed[m][column * 4 + row / 2]) + (row & 1) * 2,
                      &elements[column], 2);
      }
    }
  }
  for (uint32_t m = 0; m < count; m++) std::memcpy(warp.row<uint32_t>(warp.list(instruction)[m]), computed[m], 128);
}

template <bool transposed, bool observed>
void store_matrices(Warp &warp, const Instruction &instruction, uint32_t) {
  uint32_t count = instruction.list_count;
  uint32_t givers = count == 4 ? all_lanes : (1u << 8 * count) - 1;
  Resolved memory;
  resolve(warp, instruction, givers, 16, 16, memory);
  if constexpr (observed) observe(warp, instruction, AccessKind::write, givers, 16, memory);
  for (uint32_t m = 0; m < count; m++) {
    const uint32_t *source = warp.row<uint32_t>(warp.list(instruction)[m]);
    for (uint32_t row = 0; row < 8; row++) {
      uint8_t *to = memory.at[8 * m + row];
      if constexpr (!transposed) {
        std::memcpy(to, source + row * 4, 16);
      } else {
        for (uint32_t column = 0; column < 8; column++)
          std::memcpy(to + column * 2, reinterpret_cast<const uint8_t *>(source + column * 4 + row / 2) + (row & 1) * 2,
                      2);
      }
    }
  }
}

bool decode_matrices(Decoder &d, bool loading) {
  if (!d.has("m8n8") || d.type() != Type::b16) return false;
  size_t address = loading ? 1 : 0, data = loading ? 0 : 1;
  size_t count = d.has("x4") ? 4 : d.has("x2") ? 2 : 1;
  if (d.elements(data).size() != count) d.fail("as many registers as matrices are needed");
  std::vector<Slot> slots;
  for (const ptx::Operand &element : d.elements(data))
    slots.push_back(loading ? d.destination(element, Type::b32) : d.source(element, Type::b32));
  d.address(address);
  d.list(slots);
  d.converge_warp();
  bool transposed = d.has("trans");
  if (loading)
    return transposed ? d.run(load_matrices<true, false>, load_matrices<true, true>)
                      : d.run(load_matrices<false, false>, load_matrices<false, true>);
  return transposed ? d.run(store_matrices<true, false>, store_matrices<true, true>)
                    : d.run(store_matrices<false, false>, store_matrices<false, true>);
}

bool decode_ldmatrix(Decoder &d) {
  return decode_matrices(d, true);
}
bool decode_stmatrix(Decoder &d) {
  return decode_matrices(d, false);
}

struct HalfElements {
  static float value(uint16_t bits) { return float_from_half(bits); }
};
struct BfloatElements {
  static float value(uint16_t bits) { return float_from_bfloat(bits); }
};

using Tile = float[8][8];
typedef float Row __attribute__((vector_size(32)));

/// Fragments are tiles of 8 x 8 elements: a register's 32 pairs are one, row by row.
template <class Element>
void unpack_tile(const uint32_t *fragment, Tile &tile) {
  uint16_t elements[64];
  std::memcpy(elements, fragment, sizeof elements);
  float *values = &tile[0][0];
  for (int i = 0; i < 64; i++) values[i] = Element::value(elements[i]);
}

/// m16n8kK. list: 4 registers of d, K/4 of a, K/8 of b, 4 of c. Register r of a is the tile of rows 8 (r % 2) and
/// columns 8 (r / 2) on; of b that of rows 8 r on, transposed. Of c and d a register has the even, the next one the odd
/// columns: columns are kept in that order here, so that a row of c is two runs of four.
template <class Element, int K>
void multiply(Warp &warp, const Instruction &instruction, uint32_t) {
  const Slot *slots = warp.list(instruction);
  alignas(64) Tile a[K / 4], transposed;
  alignas(64) float b[K][8];
  for (int r = 0; r < K / 4; r++) unpack_tile<Element>(warp.row<uint32_t>(slots[4 + r]), a[r]);
  for (int r = 0; r < K / 8; r++) {
    unpack_tile<Element>(warp.row<uint32_t>(slots[4 + K / 4 + r]), transposed);
    for (int k = 0; k < 8; k++)
      for (int column = 0; column < 8; column++) b[8 * r + k][column / 2 + 4 * (column & 1)] = transposed[column][k];
  }
  float result[4][lanes];
  for (int half = 0; half < 2; half++) {
    const float *even = warp.row<float>(slots[4 + K / 4 + K / 8 + 2 * half]);
    const float *odd = warp.row<float>(slots[4 + K / 4 + K / 8 + 2 * half + 1]);
    Row sum[8];
    for (int i = 0; i < 8; i++) {
      std::memcpy(&sum[i], even + 4 * i, 16);
      std::memcpy(reinterpret_cast<char *>(&sum[i]) + 16, odd + 4 * i, 16);
    }
    for (int k = 0; k < K; k++) {
      Row column_values;
      std::memcpy(&column_values, b[k], sizeof column_values);
      for (int i = 0; i < 8; i++) sum[i] += a[half + 2 * (k / 8)][i][k % 8] * column_values;
    }
    for (int i = 0; i < 8; i++) {
      std::memcpy(result[2 * half] + 4 * i, &sum[i], 16);
      std::memcpy(result[2 * half + 1] + 4 * i, reinterpret_cast<const char *>(&sum[i]) + 16, 16);
    }
  }
  for (int r = 0; r < 4; r++) std::memcpy(warp.row<float>(slots[r]), result[r], sizeof result[r]);
}

bool decode_mma(Decoder &d) {
  int k = d.has("m16n8k16") ? 16 : d.has("m16n8k8") ? 8 : 0;
  Type element = d.type(1);
  bool known = k && d.type(0) == Type::f32 && d.type(3) == Type::f32 && d.type(2) == element &&
               (element == Type::f16 || element == Type::bf16);
  if (!known) return false;
  d.expect_operands(4, 4);
  const size_t sizes[] = {4, static_cast<size_t>(k / 4), static_cast<size_t>(k / 8), 4};
  std::vector<Slot> slots;
  for (size_t i = 0; i < 4; i++) {
    if (d.elements(i).size() != sizes[i])
      d.fail("operand " + std::to_string(i + 1) + " has a wrong number of registers");
    for (const ptx::Operand &one : d.elements(i))
      slots.push_back(i == 0 ? d.destination(one, Type::b32) : d.source(one, Type::b32));
  }
  d.list(slots);
  d.converge_warp();
  if (element == Type::f16) return d.run(k == 16 ? multiply<HalfElements, 16> : multiply<HalfElements, 8>);
  return d.run(k == 16 ? multiply<BfloatElements, 16> : multiply<BfloatElements, 8>);
}

const Registration registration{{"ldmatrix", decode_ldmatrix}, {"stmatrix", decode_stmatrix}, {"mma", decode_mma}};

}  // namespace
}  // namespace fa::emu
