// tcgen05.ld, st and wait (PTX ISA 9.7.16.8): between tensor memory and registers. Loads read and write, stores write
// when a wait covers them, so that a missing wait shows in the operands of tcgen05.mma and cp. A load whose results
// the program uses before is done at once: ptxas makes the first use wait. Those of a quarter of the lanes, to which
// one quarter of an SM has access, keep their order (check/README.md). ld.red is a load whose registers also become one
// more, lane by lane.
#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "exec/column_reduction.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/mma_tile.h"
#include "exec/tensor_memory.h"

namespace fa::emu {
namespace {

using ptx::Type;

enum class Shape : uint8_t { lanes32_bits32, lanes16_bits64, lanes16_bits128, lanes16_bits256, lanes16_bits32_twice };

/// The form in the text, kept in Instruction::imm. split: columns from the first half to the second of 16x32bx2.
struct Form {
  Shape shape = Shape::lanes32_bits32;
  bool packed = false;  // two columns, 16 bits of each, a register
  uint16_t split = 0;
  int32_t displacement = 0;
};
static_assert(sizeof(Form) == sizeof(int64_t));

Form form_of(const Instruction &instruction) {
  Form form;
  std::memcpy(static_cast<void *>(&form), &instruction.imm, sizeof form);
  return form;
}

struct Place {
  uint32_t lane, column;
};

/// Where register r of a thread is, from the address on.
Place place(const Form &form, uint32_t r, uint32_t lane) {
  switch (form.shape) {
    case Shape::lanes32_bits32:
      return {lane, r};
    case Shape::lanes16_bits64:
      return {lane / 4 + 8 * (lane & 1), 2 * r + (lane >> 1 & 1)};
    case Shape::lanes16_bits128:
      return {lane / 4 + 8 * (r & 1), r / 2 * 4 + lane % 4};
    case Shape::lanes16_bits256:
      return {lane / 4 + 8 * (r >> 1 & 1), r / 4 * 8 + lane % 4 * 2 + (r & 1)};
    case Shape::lanes16_bits32_twice:
      return {lane % 16, r + (lane >= 16 ? form.split : 0u)};
  }
  return {};
}

uint32_t columns_of(const Form &form, uint32_t registers) {
  uint32_t columns = registers;
  if (form.shape == Shape::lanes16_bits64 || form.shape == Shape::lanes16_bits128 ||
      form.shape == Shape::lanes16_bits256)
    columns *= 2;
  return form.packed ? 2 * columns : columns;
}

/// A load or store in flight.
struct Move {
  Warp *warp;
  const Instruction *instruction;
  bool loads;
  uint8_t *frame;
  TensorAddress address;
  std::vector<uint32_t> data;  // of a store: rows of 32
};

/// The moves of a CTA: of each quarter of the lanes, oldest first.
struct Moves : State {
  std::deque<Move> quarters[4];
};

std::deque<Move> &moves_of(Warp &warp) {
  return warp.cta->state<Moves>().quarters[warp.index % 4];
}

constexpr uint32_t at_once = 8;  // lanes and columns that change places together

/// A lane's columns become a register's lanes each. 32x32b without packing, at_once registers or a multiple.
void land_load_by_lanes(TensorMemory &memory, const Move &move) {
  const Slot *slots = move.warp->list(*move.instruction);
  for (uint32_t r = 0; r < move.instruction->list_count; r += at_once) {
    alignas(64) float rows[at_once][lanes];
    for (uint32_t lane = 0; lane < lanes; lane += at_once)
      transpose8(memory.floats(move.address.lane + lane, move.address.column + r), TensorMemory::pitch, rows[0] + lane,
                 lanes);
    for (uint32_t i = 0; i < at_once; i++) std::memcpy(move.frame + slots[r + i].offset(), rows[i], sizeof rows[i]);
  }
}

void land_store_by_lanes(TensorMemory &memory, const Move &move) {
  const auto *rows = reinterpret_cast<const float *>(move.data.data());
  for (uint32_t r = 0; r < move.instruction->list_count; r += at_once)
    for (uint32_t lane = 0; lane < lanes; lane += at_once)
      transpose8(rows + r * lanes + lane, lanes, memory.floats(move.address.lane + lane, move.address.column + r),
                 TensorMemory::pitch);
}

bool goes_by_lanes(const Form &form, const Move &move) {
  return form.shape == Shape::lanes32_bits32 && !form.packed && move.instruction->list_count % at_once == 0;
}

void land_load(TensorMemory &memory, const Move &move) {
  Form form = form_of(*move.instruction);
  if (goes_by_lanes(form, move)) return land_load_by_lanes(memory, move);
  const Slot *slots = move.warp->list(*move.instruction);
  for (uint32_t r = 0; r < move.instruction->list_count; r++) {
    auto *row = reinterpret_cast<uint32_t *>(move.frame + slots[r].offset());
    for (uint32_t lane = 0; lane < lanes; lane++) {
      Place from = place(form, r, lane);
      uint32_t column = form.packed ? 2 * from.column : from.column;
      const uint32_t *cell = memory.at(move.address.lane + from.lane, move.address.column + column);
      row[lane] = form.packed ? (cell[0] & 0xffff) | cell[1] << 16 : cell[0];
    }
  }
}

void land_store(TensorMemory &memory, const Move &move) {
  Form form = form_of(*move.instruction);
  if (goes_by_lanes(form, move)) return land_store_by_lanes(memory, move);
  for (uint32_t r = 0; r < move.instruction->list_count; r++)
    for (uint32_t lane = 0; lane < lanes; lane++) {
      Place to = place(form, r, lane);
      uint32_t column = form.packed ? 2 * to.column : to.column, value = move.data[r * lanes + lane];
      uint32_t *cell = memory.at(move.address.lane + to.lane, move.address.column + column);
      cell[0] = form.packed ? value & 0xffff : value;
      if (form.packed) cell[1] = value >> 16;
    }
}

/// ld.red: reduces the registers of a load that has landed, lane by lane.
void reduce(const Move &move) {
  const ColumnReduction reduction(move.instruction->detail);
  if (!reduction.exists()) return;
  const Slot *slots = move.warp->list(*move.instruction);
  const auto row = [&](Slot slot) { return reinterpret_cast<uint32_t *>(move.frame + slot.offset()); };
  int32_t best[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) best[lane] = INT32_MIN;
  for (uint32_t r = 0; r < move.instruction->list_count; r++)
    for (uint32_t lane = 0; lane < lanes; lane++) best[lane] = std::max(best[lane], reduction.key(row(slots[r])[lane]));
  for (uint32_t lane = 0; lane < lanes; lane++) row(move.instruction->dst)[lane] = reduction.number(best[lane]);
}

/// Lands the operations in flight on the warp's lanes up to the last move of which is_last says so.
template <class F>
void land_up_to(Warp &warp, F &&is_last) {
  std::deque<Move> &moves = moves_of(warp);
  auto &memory = warp.cta->state<TensorMemory>();
  auto end = std::find_if(moves.rbegin(), moves.rend(), is_last).base();
  for (auto move = moves.begin(); move != end; move++) {
    (move->loads ? land_load : land_store)(memory, *move);
    if (move->loads) reduce(*move);
  }
  moves.erase(moves.begin(), end);
}

void land_all(Warp &warp) {
  land_up_to(warp, [](const Move &) { return true; });
}

void check_place(Warp &warp, const Instruction &instruction, const Form &form, TensorAddress address) {
  uint32_t quarter = warp.index % 4 * 32;
  bool whole = form.shape == Shape::lanes32_bits32;
  if (address.lane != quarter && (whole || address.lane != quarter + 16))
    fault(warp, instruction, FaultKind::illegal_address, -1,
          "the address has lane " + std::to_string(address.lane) + ", expected " + std::to_string(quarter) +
              (whole ? "" : " or " + std::to_string(quarter + 16)) + ": warp " + std::to_string(warp.index) +
              " reaches lanes " + std::to_string(quarter) + " to " + std::to_string(quarter + 31) + " only");
  auto &memory = tensor_memory(warp, instruction, *warp.cta, 0);
  uint32_t columns = columns_of(form, instruction.list_count);
  require_columns(warp, instruction, memory, address.column, columns, "the access");
  if (form.split) require_columns(warp, instruction, memory, address.column + form.split, columns, "the second half");
}

TensorAddress address_of(Warp &warp, const Instruction &instruction, const Form &form) {
  const uint32_t *row = warp.row<uint32_t>(instruction.a);
  for (uint32_t lane = 1; lane < lanes; lane++)
    if (row[lane] != row[0])
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
            "the address in tensor memory differs between the lanes of a warp");
  return TensorAddress(row[0] + static_cast<uint32_t>(form.displacement));
}

/// Reports an access that was issued; the second half of 16x32bx2 is a separate access.
void observe(Warp &warp, const Instruction &instruction, const Form &form, TensorAddress address, AccessKind kind) {
  Observer *observer = warp.cta->cluster->observer.get();
  if (!observer) return;
  uint32_t count = form.shape == Shape::lanes32_bits32 ? lanes : lanes / 2;
  TensorAccess access{
      kind, warp.cta->rank, address.lane, count, address.column, columns_of(form, instruction.list_count), 0, 0};
  observer->tensor_access(warp, instruction, access);
  if (form.shape != Shape::lanes16_bits32_twice) return;
  access.column += form.split;
  observer->tensor_access(warp, instruction, access);
}

/// Under a seed some loads and stores land at once.
bool lands_early(Warp &warp) {
  return warp.cta->launch->options.seed != 0 && warp.cta->cluster->random() % 4 == 0;
}

void load(Warp &warp, const Instruction &instruction, uint32_t) {
  Form form = form_of(instruction);
  TensorAddress address = address_of(warp, instruction, form);
  check_place(warp, instruction, form, address);
  observe(warp, instruction, form, address, AccessKind::async_issue_read);
  moves_of(warp).push_back({&warp, &instruction, true, warp.frame->registers, address, {}});
  if (instruction.lands_at_once || lands_early(warp)) land_all(warp);
}

void store(Warp &warp, const Instruction &instruction, uint32_t) {
  Form form = form_of(instruction);
  TensorAddress address = address_of(warp, instruction, form);
  check_place(warp, instruction, form, address);
  observe(warp, instruction, form, address, AccessKind::async_issue_write);
  Move &move = moves_of(warp).emplace_back(Move{&warp, &instruction, false, nullptr, address, {}});
  for (uint32_t r = 0; r < instruction.list_count; r++) {
    const uint32_t *row = warp.row<uint32_t>(warp.list(instruction)[r]);
    move.data.insert(move.data.end(), row, row + lanes);
  }
  if (lands_early(warp)) land_all(warp);
}

void wait_for_loads(Warp &warp, const Instruction &, uint32_t) {
  land_up_to(warp, [&](const Move &move) { return move.warp == &warp && move.loads; });
}
void wait_for_stores(Warp &warp, const Instruction &, uint32_t) {
  land_up_to(warp, [&](const Move &move) { return move.warp == &warp && !move.loads; });
}

/// Registers a repetition, and the most repetitions: together no more than 128 registers.
bool shape_of(Decoder &d, Shape &shape, uint32_t &registers) {
  struct Name {
    const char *text;
    Shape shape;
    uint32_t registers;
  };
  for (const Name &name : {Name{"32x32b", Shape::lanes32_bits32, 1}, Name{"16x64b", Shape::lanes16_bits64, 1},
                           Name{"16x128b", Shape::lanes16_bits128, 2}, Name{"16x256b", Shape::lanes16_bits256, 4},
                           Name{"16x32bx2", Shape::lanes16_bits32_twice, 1}})
    if (d.has(name.text)) return shape = name.shape, registers = name.registers, true;
  return false;
}

uint32_t repetitions_of(Decoder &d) {
  for (uint32_t count = 1; count <= 128; count *= 2)
    if (d.has(std::string(1, 'x').append(std::to_string(count)))) return count;
  d.fail("expected .x1, .x2, .x4 to .x128");
}

ColumnReduction reduction_of(Decoder &d, const Form &form, uint32_t registers) {
  const Type type = d.type();
  if (type != Type::f32 && type != Type::u32 && type != Type::s32) d.fail(".red is of .f32, .u32 or .s32");
  if (d.has("max") == d.has("min")) d.fail(".red needs .min or .max");
  if (type != Type::f32 && (d.has("abs") || d.has("NaN"))) d.fail(".abs and .NaN are of .f32");
  if (form.shape != Shape::lanes32_bits32 && form.shape != Shape::lanes16_bits32_twice)
    d.fail(".red is of .32x32b or .16x32bx2");
  if (registers < 2) d.fail(".red needs .x2 or more");
  return {type, d.has("max"), d.has("abs"), d.has("NaN")};
}

bool decode_move(Decoder &d, bool loading) {
  Form form;
  uint32_t registers = 0;
  if (!shape_of(d, form.shape, registers)) return false;
  registers *= repetitions_of(d);
  if (registers > 128)
    d.fail("a thread has at most 128 registers in one instruction, got " + std::to_string(registers));
  form.packed = d.has(loading ? "pack::16b" : "unpack::16b");
  bool split = form.shape == Shape::lanes16_bits32_twice, reduces = loading && d.has("red");
  size_t operands = 2 + size_t{split} + size_t{reduces}, place_of_address = loading ? 1 + size_t{reduces} : 0;
  d.expect_operands(operands, operands);
  if (split) form.split = static_cast<uint16_t>(d.immediate(place_of_address + 1));
  size_t data = loading ? 0 : split ? 2 : 1;
  if (d.elements(data).size() != registers)
    d.fail("expected " + std::to_string(registers) + " registers, got " + std::to_string(d.elements(data).size()));
  std::vector<Slot> slots;
  for (const ptx::Operand &one : d.elements(data))
    slots.push_back(loading ? d.late_destination(one, Type::b32) : d.source(one, Type::b32));
  if (reduces) {
    d.out().detail = reduction_of(d, form, registers).detail();
    d.out().dst = d.late_destination(d.operand(1), Type::b32);
  }
  Decoder::Address address = d.address_of(d.operand(place_of_address));
  if (address.base != AddressBase::row32) d.fail("an address in tensor memory is a register of 32 bits");
  form.displacement = static_cast<int32_t>(address.displacement);
  d.out().a = address.row;
  std::memcpy(&d.out().imm, &form, sizeof form);
  d.list(slots);
  d.converge_warp();
  return d.run(loading ? load : store);
}

bool decode(Decoder &d) {
  if (d.has("ld")) return decode_move(d, true);
  if (d.has("st")) return decode_move(d, false);
  bool loads = d.has("wait::ld");
  if (!loads && !d.has("wait::st")) return false;
  d.converge_warp();
  if (loads) d.lands_late_results();
  return d.run(loads ? wait_for_loads : wait_for_stores);
}

const Registration registration{{"tcgen05", decode}};

}  // namespace
}  // namespace fa::emu
