// wgmma (PTX ISA 9.7.15): fence, mma_async, commit_group, wait_group. A warp computes its own 16 of the 64 rows. All of
// an instruction happens when a wait covers its group: shared memory is read and accumulators are written as late as
// the program allows, so that a missing wait, or memory that is given away too early, shows in the results.
#include "exec/families/wgmma.h"

#include <algorithm>
#include <bit>
#include <deque>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/mma_tile.h"
#include "exec/number.h"
#include "exec/operand_observer.h"

namespace fa::emu {
namespace {

using wgmma::Accumulator;
using wgmma::Form;
using wgmma::form_of;

/// An instruction that was issued. a: the fragment, where it comes from registers; they are read at once.
struct Product {
  const Instruction *instruction = nullptr;
  uint8_t *frame = nullptr;
  uint64_t a_descriptor = 0, b_descriptor = 0;
  bool accumulate = false;
  uint32_t a[4][lanes];
};

struct Products : State {
  std::deque<Product> in_flight;  // oldest first
  std::deque<size_t> groups;      // how many products each committed group has
  size_t uncommitted = 0;

  void at_exit(Cta &cta) override {
    if (in_flight.empty() || !cta.launch->options.check) return;
    for (Warp &warp : cta.warps)
      if (&warp.state<Products>() == this)
        cta.launch->report(make_fault(warp, *in_flight.front().instruction, FaultKind::check, -1,
                                      "wgmma.mma_async is still in flight when the block ends: no "
                                      "wgmma.wait_group has covered it"));
  }
};

[[noreturn]] void refuse(Warp &warp, const Instruction &instruction, std::string message) {
  fault(warp, instruction, FaultKind::illegal_instruction, -1, std::move(message));
}

MatrixDescriptor descriptor(Warp &warp, const Instruction &instruction, uint64_t bits) {
  MatrixDescriptor layout;
  std::string wrong = read_wgmma_descriptor(bits, layout);
  if (!wrong.empty()) refuse(warp, instruction, std::move(wrong));
  return layout;
}

OperandSource source_of(Warp &warp, const Instruction &instruction, uint64_t bits, Element element, bool transposed) {
  const Cta &cta = *warp.cta;
  uint32_t begin = cta.shared_base & 0xffffff;
  return {{cta.shared, begin, begin + cta.shared_bytes}, descriptor(warp, instruction, bits), element, transposed};
}

void check(Warp &warp, const Instruction &instruction, const OutsideWindow &outside, char operand) {
  if (!outside.happened) return;
  fault(warp, instruction, FaultKind::illegal_address, -1,
        std::string("the descriptor of ") + operand + " leads to shared address " + std::to_string(outside.address) +
            ", and the block has " + std::to_string(warp.cta->shared_bytes) + " bytes from " +
            std::to_string(warp.cta->shared_base & 0xffffff) + " on");
}

void observe_product(Warp &warp, const Product &product) {
  if (!warp.cta->cluster->observer) return;
  const Instruction &instruction = *product.instruction;
  Form form = form_of(instruction);
  if (!form.a_in_registers)
    observe_operand(warp, instruction, AccessKind::async_issue_read, warp.cta->rank, 0,
                    source_of(warp, instruction, product.a_descriptor, form.a, form.a_transposed), warp.index % 4 * 16,
                    16);
  observe_operand(warp, instruction, AccessKind::async_issue_read, warp.cta->rank, 0,
                  source_of(warp, instruction, product.b_descriptor, form.b, form.b_transposed), 0, form.columns);
}

constexpr uint32_t rows = 16, most_columns = 256;

/// A warp's accumulators, row by row, with the registers that they come from and go to.
class Accumulators {
 public:
  /// Brings those of a product in; what was there goes back to its registers if it is another one's.
  void take(Warp &warp, const Product &product) {
    const Instruction &instruction = *product.instruction;
    if (instruction_ && frame_ == product.frame && same_registers(warp, instruction)) {
      instruction_ = &instruction;
      return;
    }
    put(warp);
    instruction_ = &instruction;
    frame_ = product.frame;
    if (product.accumulate) get(warp);
  }

  void put(Warp &warp) {
    if (!instruction_) return;
    Form form = form_of(*instruction_);
    const Slot *slots = warp.list(*instruction_);
    if (form.accumulator == Accumulator::f16)
      for (uint32_t r = 0; r < form.columns / 4; r++) {
        uint32_t *row = at<uint32_t>(slots[r]);
        for (uint32_t lane = 0; lane < lanes; lane++) {
          const float *pair = place(lane, r & 1, r / 2);
          row[lane] = half_from_float(pair[0]) | uint32_t{half_from_float(pair[1])} << 16;
        }
      }
    else
      for (uint32_t r = 0; r < form.columns / 2; r += 2) {
        float *even = at<float>(slots[r]), *odd = at<float>(slots[r + 1]);
        for (uint32_t lane = 0; lane < lanes; lane++) {
          const float *pair = place(lane, r / 2 & 1, r / 4);
          even[lane] = pair[0];
          odd[lane] = pair[1];
        }
      }
    instruction_ = nullptr;
  }

  float *values() { return values_; }

 private:
  void get(Warp &warp) {
    Form form = form_of(*instruction_);
    const Slot *slots = warp.list(*instruction_);
    if (form.accumulator == Accumulator::f16)
      for (uint32_t r = 0; r < form.columns / 4; r++) {
        const uint32_t *row = at<uint32_t>(slots[r]);
        for (uint32_t lane = 0; lane < lanes; lane++) {
          float *pair = place(lane, r & 1, r / 2);
          pair[0] = float_from_half(static_cast<uint16_t>(row[lane]));
          pair[1] = float_from_half(static_cast<uint16_t>(row[lane] >> 16));
        }
      }
    else
      for (uint32_t r = 0; r < form.columns / 2; r += 2) {
        const float *even = at<float>(slots[r]), *odd = at<float>(slots[r + 1]);
        for (uint32_t lane = 0; lane < lanes; lane++) {
          float *pair = place(lane, r / 2 & 1, r / 4);
          pair[0] = even[lane];
          pair[1] = odd[lane];
        }
      }
  }

  /// Two neighbouring columns of a lane: row lane / 4 of half 0 or 1 of the rows, in the tile of 8 columns.
  float *place(uint32_t lane, uint32_t half, uint32_t tile) {
    return values_ + (lane / 4 + 8 * half) * most_columns + tile * 8 + lane % 4 * 2;
  }
  template <class T>
  T *at(Slot slot) const {
    return reinterpret_cast<T *>(frame_ + slot.offset());
  }
  bool same_registers(Warp &warp, const Instruction &other) const {
    Form mine = form_of(*instruction_), its = form_of(other);
    if (mine.columns != its.columns || mine.accumulator != its.accumulator || mine.accumulator == Accumulator::f16)
      return false;
    const Slot *a = warp.list(*instruction_), *b = warp.list(other);
    for (uint32_t r = 0; r < wgmma::accumulator_registers(its); r++)
      if (a[r].bits != b[r].bits) return false;
    return true;
  }

  const Instruction *instruction_ = nullptr;
  uint8_t *frame_ = nullptr;
  alignas(64) float values_[rows * most_columns];
};

/// The fragment of A as rows: register r has the bytes 4 (lane % 4) + 16 (r / 2) of row lane / 4 + 8 (r % 2).
void rows_of_fragment(const Product &product, Element element, float *to) {
  uint8_t bytes[rows][32];
  for (uint32_t r = 0; r < 4; r++)
    for (uint32_t lane = 0; lane < lanes; lane++)
      std::memcpy(&bytes[lane / 4 + 8 * (r % 2)][4 * (lane % 4) + 16 * (r / 2)], &product.a[r][lane], 4);
  for (uint32_t row = 0; row < rows; row++)
    decode_elements(element, bytes[row], depth_of(element), to + row * depth_of(element));
}

/// s32 accumulators: the sum of an instruction's products is exact in f32.
void add_integers(float *values, const float *sums, const Form &form, bool accumulate) {
  for (uint32_t row = 0; row < rows; row++)
    for (uint32_t column = 0; column < form.columns; column++) {
      float *place = values + row * most_columns + column;
      int32_t before = accumulate ? std::bit_cast<int32_t>(*place) : 0;
      int64_t sum = int64_t{before} + static_cast<int32_t>(sums[row * most_columns + column]);
      if (form.saturated) sum = std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX);
      *place = std::bit_cast<float>(static_cast<int32_t>(sum));
    }
}

void compute(Warp &warp, const Product &product, Accumulators &accumulators) {
  const Instruction &instruction = *product.instruction;
  Form form = form_of(instruction);
  uint32_t depth = depth_of(form.a);
  alignas(64) float a[rows * greatest_depth];
  alignas(64) float b[greatest_depth * most_columns];
  if (form.a_in_registers) {
    rows_of_fragment(product, form.a, a);
  } else {
    OperandSource source = source_of(warp, instruction, product.a_descriptor, form.a, form.a_transposed);
    check(warp, instruction, load_rows(source, warp.index % 4 * 16, rows, a), 'A');
  }
  if (form.negated)
    for (uint32_t i = 0; i < rows * depth; i++) a[i] = -a[i];
  OperandSource source = source_of(warp, instruction, product.b_descriptor, form.b, form.b_transposed);
  check(warp, instruction, load_columns(source, 0, form.columns, b, form.columns), 'B');
  accumulators.take(warp, product);
  if (form.accumulator != Accumulator::s32)
    return multiply_tile(accumulators.values(), most_columns, a, depth, b, form.columns, rows, form.columns, depth,
                         product.accumulate);
  alignas(64) float sums[rows * most_columns];
  multiply_tile(sums, most_columns, a, depth, b, form.columns, rows, form.columns, depth, false);
  add_integers(accumulators.values(), sums, form, product.accumulate);
}

void land(Warp &warp, Products &products, size_t count) {
  Accumulators accumulators;
  for (; count > 0; count--) {
    compute(warp, products.in_flight.front(), accumulators);
    products.in_flight.pop_front();
  }
  accumulators.put(warp);
}

/// Under a seed some products are computed as soon as they are issued.
void perhaps_land_early(Warp &warp, Products &products) {
  Cluster &cluster = *warp.cta->cluster;
  if (warp.cta->launch->options.seed == 0 || cluster.random() % 4 != 0) return;
  land(warp, products, products.in_flight.size());
  for (size_t &group : products.groups) group = 0;
  products.uncommitted = 0;
}

/// The value that a row has in all lanes; the same is wanted of all of a warpgroup.
uint64_t same_in_all(Warp &warp, const Instruction &instruction, Slot slot, char operand) {
  const uint64_t *row = warp.row<uint64_t>(slot);
  for (uint32_t lane = 1; lane < lanes; lane++)
    if (row[lane] != row[0])
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
            operand == 'A' ? "the matrix descriptor of A differs between the lanes of a warp"
                           : "the matrix descriptor of B differs between the lanes of a warp");
  return row[0];
}

/// a, b: descriptors. c: scale-d. list: accumulators, then the fragment of A if it is in registers.
void issue(Warp &warp, const Instruction &instruction, uint32_t) {
  Form form = form_of(instruction);
  if ((warp.index / 4 + 1) * 4 > warp.cta->warps.size())
    refuse(
        warp, instruction,
        "wgmma needs four warps from a multiple of 4 on, and the block has " + std::to_string(warp.cta->warps.size()));
  auto &products = warp.state<Products>();
  Product &product = products.in_flight.emplace_back();
  product.instruction = &instruction;
  product.frame = warp.frame->registers;
  uint32_t scale = *warp.row<uint32_t>(instruction.c);
  if (scale != 0 && scale != all_lanes) refuse(warp, instruction, "scale-d differs between the lanes of a warp");
  product.accumulate = scale != 0;
  if (form.a_in_registers) {
    const Slot *fragment = warp.list(instruction) + wgmma::accumulator_registers(form);
    for (int r = 0; r < 4; r++) std::memcpy(product.a[r], warp.row<uint32_t>(fragment[r]), sizeof product.a[r]);
  } else {
    product.a_descriptor = same_in_all(warp, instruction, instruction.a, 'A');
    descriptor(warp, instruction, product.a_descriptor);
  }
  product.b_descriptor = same_in_all(warp, instruction, instruction.b, 'B');
  descriptor(warp, instruction, product.b_descriptor);
  products.uncommitted++;
  observe_product(warp, product);
  perhaps_land_early(warp, products);
}

void commit(Warp &warp, const Instruction &, uint32_t) {
  auto &products = warp.state<Products>();
  products.groups.push_back(products.uncommitted);
  products.uncommitted = 0;
}

/// imm: groups that may stay in flight.
void wait(Warp &warp, const Instruction &instruction, uint32_t) {
  auto &products = warp.state<Products>();
  size_t count = 0;
  while (products.groups.size() > static_cast<size_t>(instruction.imm)) {
    count += products.groups.front();
    products.groups.pop_front();
  }
  land(warp, products, count);
}

/// Orders accesses to registers: nothing to do where products read theirs when they are issued.
void fence(Warp &, const Instruction &, uint32_t) {}

bool decode(Decoder &d) {
  if (d.has("mma_async")) return !d.has("sp") && wgmma::decode_product(d) && d.run(issue);
  d.converge_warp();
  if (d.has("fence")) return d.run(fence);
  if (d.has("commit_group")) return d.run(commit);
  if (!d.has("wait_group")) return false;
  d.out().imm = d.immediate(0);
  if (d.out().imm < 0 || d.out().imm > 7) d.fail("wgmma.wait_group takes 0 to 7");
  if (d.out().imm == 0) d.lands_late_results();
  return d.run(wait);
}

const Registration registration{{"wgmma", decode}};

}  // namespace
}  // namespace fa::emu
