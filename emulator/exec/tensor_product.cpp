// Where rows and columns of D are (PTX ISA 9.7.16.10.5, layouts A to G), and the product.
#include "exec/tensor_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/mma_tile.h"
#include "exec/number.h"
#include "exec/operand_observer.h"

namespace fa::emu {
namespace {

constexpr uint32_t max_rows = 128, max_columns = 256;
constexpr uint32_t a_columns = 8;  // of A in tensor memory: 32 bytes a row

bool is_small(Element element) {
  return element == Element::e2m3 || element == Element::e3m2 || element == Element::e2m1;
}

}  // namespace

TensorProduct::TensorProduct(Warp &warp, const Instruction &instruction, uint32_t lane, const Operands &operands)
    : TensorOperation(warp, instruction, lane), operands_(operands) {
  check_places();
  const MmaShape &shape = operands_.shape;
  warp.cta->launch->tensor_operations += uint64_t{2} * shape.rows * shape.columns * depth_of(shape.a);
}

Cta &TensorProduct::cta(int number) const {
  Cta &own = *warp_.cta;
  if (operands_.group == 1) return own;
  return own.cluster->ctas[(own.rank & ~1u) + static_cast<uint32_t>(number)];
}

std::vector<TensorProduct::Block> TensorProduct::blocks() const {
  uint32_t rows = operands_.shape.rows / static_cast<uint32_t>(operands_.group), n = operands_.shape.columns;
  std::vector<Block> result;
  if (rows == 128) return {{0, 128, 0, 0, n}};
  if (rows == 64 && operands_.group == 1 && !operands_.ws) {
    // A quarter of the rows for each warp, in half of its lanes.
    for (uint32_t i = 0; i < 4; i++) result.push_back({16 * i, 16, 32 * i, 0, n});
    return result;
  }
  // All rows, again and again for a part of the columns each.
  uint32_t parts = 128 / rows;
  for (uint32_t i = 0; i < parts; i++) result.push_back({0, rows, rows * i, n / parts * i, n / parts});
  return result;
}

void TensorProduct::check_places() {
  auto lane = [&](TensorAddress address, const char *what) {
    bool half = operands_.shape.rows == 64 && operands_.group == 1 && !operands_.ws;
    if (address.lane == 0 || (half && address.lane == 16)) return;
    fault(warp_, instruction_, FaultKind::illegal_address, -1,
          std::string("the address of ") + what + " has lane " + std::to_string(address.lane) + ", expected 0" +
              (half ? " or 16" : ""));
  };
  lane(operands_.d, "D");
  if (operands_.a_in_tensor_memory) {
    lane(operands_.a_address, "A");
    if (is_small(operands_.shape.a))
      fault(warp_, instruction_, FaultKind::illegal_instruction, -1,
            "A in tensor memory with elements of 4 or 6 bits is not emulated; expected e4m3 or e5m2");
  }
  for (int number = 0; number < operands_.group; number++) {
    auto &memory = cta(number).state<TensorMemory>();
    require_columns(warp_, instruction_, memory, operands_.d.column, blocks()[0].columns, "D");
    if (operands_.a_in_tensor_memory)
      require_columns(warp_, instruction_, memory, operands_.a_address.column, a_columns, "A");
  }
}

OperandSource TensorProduct::source(int number, const MatrixDescriptor &layout, Element element,
                                    bool transposed) const {
  const Cta &from = cta(number);
  uint32_t begin = from.shared_base & 0xffffff;
  return {{from.shared, begin, begin + from.shared_bytes}, layout, element, transposed};
}

void TensorProduct::observe(AccessKind kind, uint64_t key) const {
  if (!warp_.cta->cluster->observer) return;
  const MmaShape &shape = operands_.shape;
  uint32_t group = static_cast<uint32_t>(operands_.group);
  for (int number = 0; number < operands_.group; number++) {
    uint32_t rank = cta(number).rank;
    if (!operands_.a_in_tensor_memory)
      observe_operand(warp_, instruction_, kind, rank, key, source(number, operands_.a, shape.a, shape.a_transposed), 0,
                      shape.rows / group);
    observe_operand(warp_, instruction_, kind, rank, key, source(number, operands_.b, shape.b, shape.b_transposed), 0,
                    shape.columns / group);
    for (const Block &block : blocks()) {
      uint32_t d_lane = operands_.d.lane + block.lane, a_lane = operands_.a_address.lane + block.lane;
      if (operands_.a_in_tensor_memory)
        observe_tensor(kind, key,
                       {AccessKind::read, rank, a_lane, block.rows, operands_.a_address.column, a_columns, 0, 0});
      if (operands_.accumulate)
        observe_tensor(kind, key,
                       {AccessKind::read, rank, d_lane, block.rows, operands_.d.column, block.columns, 0, 0});
      observe_tensor(kind, key, {AccessKind::write, rank, d_lane, block.rows, operands_.d.column, block.columns, 0, 0});
    }
  }
}

void TensorProduct::check(const OutsideWindow &outside, char operand, const MatrixDescriptor &layout) const {
  if (!outside.happened) return;
  const Cta &own = *warp_.cta;
  fault(warp_, instruction_, FaultKind::illegal_address, -1,
        std::string("the descriptor of ") + operand + " (start " + std::to_string(layout.start) + ", leading offset " +
            std::to_string(layout.leading) + ", stride offset " + std::to_string(layout.stride) +
            ") leads to shared address " + std::to_string(outside.address) + ", and the block has " +
            std::to_string(own.shared_bytes) + " bytes from " + std::to_string(own.shared_base & 0xffffff) + " on");
}

void TensorProduct::load_b(float *b) const {
  const MmaShape &shape = operands_.shape;
  uint32_t columns = shape.columns / static_cast<uint32_t>(operands_.group);
  for (uint32_t number = 0; number < static_cast<uint32_t>(operands_.group); number++)
    check(load_columns(source(static_cast<int>(number), operands_.b, shape.b, shape.b_transposed), 0, columns,
                       b + number * columns, shape.columns),
          'B', operands_.b);
}

void TensorProduct::load_a(int number, const Block &block, float *a) const {
  const MmaShape &shape = operands_.shape;
  uint32_t depth = depth_of(shape.a);
  if (!operands_.a_in_tensor_memory) {
    check(load_rows(source(number, operands_.a, shape.a, shape.a_transposed), block.row, block.rows, a), 'A',
          operands_.a);
  } else {
    auto &memory = cta(number).state<TensorMemory>();
    for (uint32_t row = 0; row < block.rows; row++) {
      uint8_t bytes[32];
      std::memcpy(bytes, memory.at(operands_.a_address.lane + block.lane + row, operands_.a_address.column), 32);
      decode_elements(shape.a, bytes, depth, a + row * depth);
    }
  }
  if (shape.negated)
    for (uint32_t i = 0; i < block.rows * depth; i++) a[i] = -a[i];
}

void TensorProduct::sum_floats(TensorMemory &memory, const Block &block, const float *a, const float *b) {
  uint32_t depth = depth_of(operands_.shape.a), lane = operands_.d.lane + block.lane;
  float *d = memory.floats(lane, operands_.d.column);
  if (operands_.scale != 0 && operands_.accumulate)
    for (uint32_t row = 0; row < block.rows; row++)
      for (uint32_t n = 0; n < block.columns; n++)
        d[row * TensorMemory::pitch + n] = std::ldexp(d[row * TensorMemory::pitch + n], -operands_.scale);
  multiply_tile(d, TensorMemory::pitch, a, depth, b, operands_.shape.columns, block.rows, block.columns, depth,
                operands_.accumulate);
}

/// f16 and s32: a product in floats, which is exact for integers, then one addition.
void TensorProduct::sum_others(TensorMemory &memory, const Block &block, const float *a, const float *b) {
  uint32_t depth = depth_of(operands_.shape.a);
  alignas(64) float sums[max_columns * 4];
  for (uint32_t row = 0; row < block.rows; row += 4) {
    multiply_tile(sums, max_columns, a + row * depth, depth, b, operands_.shape.columns, 4, block.columns, depth,
                  false);
    for (uint32_t i = 0; i < 4; i++)
      for (uint32_t n = 0; n < block.columns; n++) {
        uint32_t *cell = memory.at(operands_.d.lane + block.lane + row + i, operands_.d.column + n);
        float sum = sums[i * max_columns + n];
        if (operands_.shape.result == MmaResult::f16) {
          float before = operands_.accumulate ? float_from_half(static_cast<uint16_t>(*cell)) : 0;
          *cell = half_from_float(std::ldexp(before, -operands_.scale) + sum);
        } else {
          int64_t before = operands_.accumulate ? std::bit_cast<int32_t>(*cell) : 0;
          int64_t total = before + static_cast<int32_t>(sum);
          if (operands_.shape.saturated) total = std::clamp<int64_t>(total, INT32_MIN, INT32_MAX);
          *cell = static_cast<uint32_t>(total);
        }
      }
  }
}

void TensorProduct::multiply(int number, const Block &block, const float *a, const float *b) {
  auto &memory = cta(number).state<TensorMemory>();
  const float *part = b + block.first_column;
  // Rows that are switched off are put back as they were.
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> kept;
  for (uint32_t row = 0; row < block.rows; row++) {
    uint32_t lane = operands_.d.lane + block.lane + row, bit = lane + 128 * static_cast<uint32_t>(number);
    if (!(operands_.disabled[bit / 32] >> bit % 32 & 1)) continue;
    const uint32_t *cells = memory.at(lane, operands_.d.column);
    kept.push_back({lane, {cells, cells + block.columns}});
  }
  if (operands_.shape.result == MmaResult::f32)
    sum_floats(memory, block, a, part);
  else
    sum_others(memory, block, a, part);
  for (const auto &[lane, cells] : kept) std::copy(cells.begin(), cells.end(), memory.at(lane, operands_.d.column));
}

void TensorProduct::run() {
  alignas(64) float b[greatest_depth * max_columns];
  alignas(64) float a[max_rows * greatest_depth];
  load_b(b);
  for (int number = 0; number < operands_.group; number++)
    for (const Block &block : blocks()) {
      load_a(number, block, a);
      multiply(number, block, a, b);
    }
}

}  // namespace fa::emu
