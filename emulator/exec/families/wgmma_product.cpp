// Products of 64 rows in floats: accumulators stay there as long as products follow one another on the same registers.
#include "exec/families/wgmma_product.h"

#include <algorithm>
#include <bit>

#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/mma_tile.h"
#include "exec/number.h"
#include "exec/short_sum.h"

namespace fa::emu::wgmma {
namespace {

constexpr uint32_t warp_rows = 16, rows = warp_rows * group_warps, max_columns = 256;

void check(Warp &warp, const Instruction &instruction, const OutsideWindow &outside, char operand) {
  if (!outside.happened) return;
  fault(warp, instruction, FaultKind::illegal_address, -1,
        std::string("the descriptor of ") + operand + " leads to shared address " + std::to_string(outside.address) +
            ", and the block has " + std::to_string(warp.cta->shared_bytes) + " bytes from " +
            std::to_string(warp.cta->shared_base & 0xffffff) + " on");
}

/// A warpgroup's accumulators, row by row, with the registers that they come from and go to.
class Accumulators {
 public:
  explicit Accumulators(Warp &warp) : warp_(warp) {}

  /// Brings those of a product in; another product's go back to their registers.
  void take(const Product &product) {
    bool same = product_ && std::equal(product_->frame, product_->frame + group_warps, product.frame) &&
                same_registers(*product.instruction);
    if (!same) put();
    product_ = &product;
    if (!same && product.accumulate) each_warp([&](uint32_t warp) { get(warp); });
  }

  void put() {
    if (product_) each_warp([&](uint32_t warp) { put(warp); });
    product_ = nullptr;
  }

  float *values() { return values_; }

 private:
  template <class F>
  void each_warp(F &&f) {
    for (uint32_t warp = 0; warp < group_warps; warp++) f(warp);
  }

  void put(uint32_t warp) {
    Form form = form_of(*product_->instruction);
    const Slot *slots = warp_.list(*product_->instruction);
    if (form.accumulator == Accumulator::f16)
      for (uint32_t r = 0; r < form.columns / 4; r++) {
        uint32_t *row = at<uint32_t>(warp, slots[r]);
        for (uint32_t lane = 0; lane < lanes; lane++) {
          const float *pair = place(warp, lane, r & 1, r / 2);
          row[lane] = half_from_float(pair[0]) | uint32_t{half_from_float(pair[1])} << 16;
        }
      }
    else
      for (uint32_t r = 0; r < form.columns / 2; r += 2) {
        float *even = at<float>(warp, slots[r]), *odd = at<float>(warp, slots[r + 1]);
        for (uint32_t lane = 0; lane < lanes; lane++) {
          const float *pair = place(warp, lane, r / 2 & 1, r / 4);
          even[lane] = pair[0];
          odd[lane] = pair[1];
        }
      }
  }

  void get(uint32_t warp) {
    Form form = form_of(*product_->instruction);
    const Slot *slots = warp_.list(*product_->instruction);
    if (form.accumulator == Accumulator::f16)
      for (uint32_t r = 0; r < form.columns / 4; r++) {
        const uint32_t *row = at<uint32_t>(warp, slots[r]);
        for (uint32_t lane = 0; lane < lanes; lane++) {
          float *pair = place(warp, lane, r & 1, r / 2);
          pair[0] = float_from_half(static_cast<uint16_t>(row[lane]));
          pair[1] = float_from_half(static_cast<uint16_t>(row[lane] >> 16));
        }
      }
    else
      for (uint32_t r = 0; r < form.columns / 2; r += 2) {
        const float *even = at<float>(warp, slots[r]), *odd = at<float>(warp, slots[r + 1]);
        for (uint32_t lane = 0; lane < lanes; lane++) {
          float *pair = place(warp, lane, r / 2 & 1, r / 4);
          pair[0] = even[lane];
          pair[1] = odd[lane];
        }
      }
  }

  /// Two neighbouring columns of a lane: row lane / 4 of half 0 or 1 of the warp's rows, in the tile of 8 columns.
  float *place(uint32_t warp, uint32_t lane, uint32_t half, uint32_t tile) {
    return values_ + (warp * warp_rows + lane / 4 + 8 * half) * max_columns + tile * 8 + lane % 4 * 2;
  }
  template <class T>
  T *at(uint32_t warp, Slot slot) const {
    return reinterpret_cast<T *>(product_->frame[warp] + slot.offset());
  }
  bool same_registers(const Instruction &other) const {
    Form mine = form_of(*product_->instruction), its = form_of(other);
    if (mine.columns != its.columns || mine.accumulator != its.accumulator || mine.accumulator == Accumulator::f16)
      return false;
    const Slot *a = warp_.list(*product_->instruction), *b = warp_.list(other);
    for (uint32_t r = 0; r < accumulator_registers(its); r++)
      if (a[r].bits != b[r].bits) return false;
    return true;
  }

  Warp &warp_;
  const Product *product_ = nullptr;
  alignas(64) float values_[rows * max_columns];
};

/// The fragment of A as rows: register r has the bytes 4 (lane % 4) + 16 (r / 2) of row lane / 4 + 8 (r % 2).
void rows_of_fragment(const uint32_t (&fragment)[4][lanes], Element element, float *to) {
  uint8_t bytes[warp_rows][32];
  for (uint32_t r = 0; r < 4; r++)
    for (uint32_t lane = 0; lane < lanes; lane++)
      std::memcpy(&bytes[lane / 4 + 8 * (r % 2)][4 * (lane % 4) + 16 * (r / 2)], &fragment[r][lane], 4);
  for (uint32_t row = 0; row < warp_rows; row++)
    decode_elements(element, bytes[row], depth_of(element), to + row * depth_of(element));
}

/// s32 accumulators: the sum of an instruction's products is exact in f32.
void add_integers(float *values, const float *sums, const Form &form, bool accumulate) {
  for (uint32_t row = 0; row < rows; row++)
    for (uint32_t column = 0; column < form.columns; column++) {
      float *place = values + row * max_columns + column;
      int32_t before = accumulate ? std::bit_cast<int32_t>(*place) : 0;
      int64_t sum = int64_t{before} + static_cast<int32_t>(sums[row * max_columns + column]);
      if (form.saturated) sum = std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX);
      *place = std::bit_cast<float>(static_cast<int32_t>(sum));
    }
}

/// 2 to the least exponent of an 8-bit format, whose sums are short; 0 for other formats.
float min_power(Element element) {
  return element == Element::e4m3 ? 0x1p-6f : element == Element::e5m2 ? 0x1p-14f : 0;
}

void compute(Warp &warp, const Product &product, Accumulators &accumulators) {
  const Instruction &instruction = *product.instruction;
  Form form = form_of(instruction);
  uint32_t depth = depth_of(form.a);
  alignas(64) float a[rows * greatest_depth];
  alignas(64) float b[greatest_depth * max_columns];
  if (form.a_in_registers) {
    for (uint32_t i = 0; i < group_warps; i++) rows_of_fragment(product.a[i], form.a, a + i * warp_rows * depth);
  } else {
    OperandSource source = source_of(warp, instruction, product.a_descriptor, form.a, form.a_transposed);
    check(warp, instruction, load_rows(source, 0, rows, a), 'A');
  }
  if (form.negated)
    for (uint32_t i = 0; i < rows * depth; i++) a[i] = -a[i];
  OperandSource source = source_of(warp, instruction, product.b_descriptor, form.b, form.b_transposed);
  check(warp, instruction, load_columns(source, 0, form.columns, b, form.columns), 'B');
  accumulators.take(product);
  if (min_power(form.a) != 0 && warp.cta->launch->short_wgmma)
    return short_sum::multiply_tile(accumulators.values(), max_columns, a, depth, b, form.columns, rows, form.columns,
                                    depth, product.accumulate, min_power(form.a), min_power(form.b),
                                    form.accumulator == Accumulator::f32);
  if (form.accumulator != Accumulator::s32)
    return multiply_tile(accumulators.values(), max_columns, a, depth, b, form.columns, rows, form.columns, depth,
                         product.accumulate);
  alignas(64) float sums[rows * max_columns];
  multiply_tile(sums, max_columns, a, depth, b, form.columns, rows, form.columns, depth, false);
  add_integers(accumulators.values(), sums, form, product.accumulate);
}

}  // namespace

OperandSource source_of(Warp &warp, const Instruction &instruction, uint64_t descriptor, Element element,
                        bool transposed) {
  const Cta &cta = *warp.cta;
  MatrixDescriptor layout;
  std::string wrong = read_wgmma_descriptor(descriptor, layout);
  if (!wrong.empty()) fault(warp, instruction, FaultKind::illegal_instruction, -1, std::move(wrong));
  uint32_t begin = cta.shared_base & 0xffffff;
  return {{cta.shared, begin, begin + cta.shared_bytes}, layout, element, transposed};
}

void compute(Warp &warp, const std::deque<Product> &products, size_t count) {
  Accumulators accumulators(warp);
  for (size_t i = 0; i < count; i++) compute(warp, products[i], accumulators);
  accumulators.put();
}

}  // namespace fa::emu::wgmma
