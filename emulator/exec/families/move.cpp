// mov with packing and unpacking, addresses of variables, clocks; cvta, isspacep, selp.
#include <algorithm>
#include <cstring>

#include "exec/builder.h"
#include "exec/dispatch.h"
#include "exec/special.h"
#include "memory/windows.h"

namespace fa::emu {
namespace {

using ptx::OperandKind;
using ptx::Space;
using ptx::Type;

constexpr auto same = [](auto a) { return a; };

struct Wide128 {
  uint64_t low, high;
};

Handler copy(Type type) {
  switch (ptx::bytes_of(type)) {
    case 2:
      return elementwise<uint16_t, uint16_t>(same);
    case 4:
      return elementwise<uint32_t, uint32_t>(same);
    case 8:
      return elementwise<uint64_t, uint64_t>(same);
    case 16:
      return elementwise<Wide128, Wide128>(same);
    default:
      return nullptr;
  }
}

void copy_predicate(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t flip = instruction.detail ? all_lanes : 0;
  store_predicate(warp.row<uint32_t>(instruction.dst), *warp.row<uint32_t>(instruction.a) ^ flip, mask);
}

/// list: the parts, lowest first; detail: bytes of one.
void pack(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t part = instruction.detail, whole = part * instruction.list_count;
  uint8_t computed[lanes * 16];
  for (uint32_t e = 0; e < instruction.list_count; e++) {
    const uint8_t *from = warp.row<uint8_t>(warp.list(instruction)[e]);
    for (uint32_t lane = 0; lane < lanes; lane++)
      std::memcpy(computed + lane * whole + e * part, from + lane * part, part);
  }
  uint8_t *to = warp.row<uint8_t>(instruction.dst);
  for (uint32_t lane = 0; lane < lanes; lane++)
    if (mask >> lane & 1) std::memcpy(to + lane * whole, computed + lane * whole, whole);
}

void unpack(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t part = instruction.detail, whole = part * instruction.list_count;
  uint8_t source[lanes * 16];
  std::memcpy(source, warp.row<uint8_t>(instruction.a), lanes * whole);
  for (uint32_t e = 0; e < instruction.list_count; e++) {
    uint8_t *to = warp.row<uint8_t>(warp.list(instruction)[e]);
    for (uint32_t lane = 0; lane < lanes; lane++)
      if (mask >> lane & 1) std::memcpy(to + lane * part, source + lane * whole + e * part, part);
  }
}

/// The most common vector: two parts that fill a register. Part: unsigned; Whole: twice as wide.
template <class Part, class Whole>
void pack_two(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const Slot *slots = warp.list(instruction);
  const Part *low = warp.row<Part>(slots[0]), *high = warp.row<Part>(slots[1]);
  Whole computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++)
    computed[lane] = static_cast<Whole>(Whole{high[lane]} << 8 * sizeof(Part) | Whole{low[lane]});
  store_lanes(warp.row<Whole>(instruction.dst), computed, mask);
}

template <class Part, class Whole>
void unpack_two(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const Slot *slots = warp.list(instruction);
  const Whole *from = warp.row<Whole>(instruction.a);
  Part low[lanes], high[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    low[lane] = static_cast<Part>(from[lane]);
    high[lane] = static_cast<Part>(from[lane] >> 8 * sizeof(Part));
  }
  store_lanes(warp.row<Part>(slots[0]), low, mask);
  store_lanes(warp.row<Part>(slots[1]), high, mask);
}

bool decode_vector(Decoder &d, size_t vector, bool packing) {
  auto parts = d.elements(vector);
  uint32_t whole = ptx::bytes_of(d.type()), part = parts.empty() ? 0 : whole / static_cast<uint32_t>(parts.size());
  Type type = part == 2 ? Type::b16 : part == 4 ? Type::b32 : part == 8 ? Type::b64 : Type::none;
  if (type == Type::none) d.fail("a vector whose elements have not 16, 32 or 64 bits");
  std::vector<Slot> slots;
  for (const ptx::Operand &element : parts)
    slots.push_back(packing ? d.source(element, type) : d.destination(element, type));
  d.out().detail = static_cast<uint16_t>(part);
  d.list(slots);
  if (packing)
    d.out().dst = d.destination(0, d.type());
  else
    d.out().a = d.source(1, d.type());
  if (parts.size() == 2 && part == 2)
    return d.run(packing ? pack_two<uint16_t, uint32_t> : unpack_two<uint16_t, uint32_t>);
  if (parts.size() == 2 && part == 4)
    return d.run(packing ? pack_two<uint32_t, uint64_t> : unpack_two<uint32_t, uint64_t>);
  return d.run(packing ? pack : unpack);
}

/// imm: offset in the frame's local memory.
template <class T>
void frame_address(Warp &warp, const Instruction &instruction, uint32_t mask) {
  T computed[lanes];
  std::fill_n(computed, lanes, static_cast<T>(warp.frame->local_base + static_cast<uint64_t>(instruction.imm)));
  store_lanes(warp.row<T>(instruction.dst), computed, mask);
}

template <class T>
void clock_value(Warp &warp, const Instruction &instruction, uint32_t mask) {
  T computed[lanes];
  std::fill_n(computed, lanes, static_cast<T>(read_clock(instruction.target)));
  store_lanes(warp.row<T>(instruction.dst), computed, mask);
}

/// A special register that is a predicate (%is_explicit_cluster): a number in each lane.
void special_predicate(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint32_t *value = warp.row<uint32_t>(instruction.a);
  store_predicate(warp.row<uint32_t>(instruction.dst), *value ? all_lanes : 0, mask);
}

bool is_in_frame(Decoder &d, const ptx::Operand &operand) {
  if (operand.kind != OperandKind::variable) return false;
  Space space = d.builder().module().variables[operand.index].space;
  return space == Space::local || (space == Space::param && !d.builder().is_entry_parameter(operand.index));
}

bool decode_mov(Decoder &d) {
  d.expect_operands(2, 2);
  Type type = d.type();
  const ptx::Operand &to = d.operand(0), &from = d.operand(1);
  Instruction &out = d.out();
  if (from.kind == OperandKind::vector) return decode_vector(d, 1, true);
  if (to.kind == OperandKind::vector) return decode_vector(d, 0, false);
  if (type == Type::pred && from.kind == OperandKind::special) {
    out.a = d.source(1, Type::u32);
    out.dst = d.destination(0, type);
    return d.run(special_predicate);
  }
  if (type == Type::pred) {
    out.detail = from.negated;
    out.a = d.source(1, type);
    out.dst = d.destination(0, type);
    return d.run(copy_predicate);
  }
  bool wide = ptx::bytes_of(type) == 8;
  if (is_in_frame(d, from)) {
    out.imm = static_cast<int64_t>(d.builder().place(from.index)) + from.value;
    out.dst = d.destination(0, type);
    return d.run(wide ? frame_address<uint64_t> : frame_address<uint32_t>);
  }
  if (from.kind == OperandKind::special && is_clock(from.index)) {
    out.target = from.index;
    out.dst = d.destination(0, type);
    return d.run(wide ? clock_value<uint64_t> : clock_value<uint32_t>);
  }
  return same_type_operands(d, copy(type), 1, type);
}

uint64_t window_of(Space space) {
  switch (space) {
    case Space::shared:
      return memory::shared_window;
    case Space::local:
      return memory::local_window;
    case Space::param:
      return memory::param_window;
    default:
      return 0;
  }
}

void to_generic(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint64_t *a = warp.row<uint64_t>(instruction.a);
  uint64_t computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) computed[lane] = a[lane] | static_cast<uint64_t>(instruction.imm);
  store_lanes(warp.row<uint64_t>(instruction.dst), computed, mask);
}

/// cvta: a window's address is its offset with the window's bits.
bool decode_cvta(Decoder &d) {
  if (d.type() != Type::u64) return false;
  Space space = d.space();
  if (space == Space::param && !d.in_entry()) space = Space::local;
  if (d.has("to")) {
    Handler strip = elementwise<uint64_t, uint64_t>([](uint64_t a) { return a & memory::offset_mask; });
    return same_type_operands(d, strip, 1, Type::u64);
  }
  d.out().imm = static_cast<int64_t>(window_of(space));
  return same_type_operands(d, to_generic, 1, Type::u64);
}

void is_space(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint64_t *a = warp.row<uint64_t>(instruction.a);
  uint64_t window = static_cast<uint64_t>(instruction.imm);
  uint32_t bits = collect([&](uint32_t lane) { return (a[lane] & ~memory::offset_mask) == window; });
  store_predicate(warp.row<uint32_t>(instruction.dst), bits, mask);
}

bool decode_isspacep(Decoder &d) {
  d.expect_operands(2, 2);
  d.out().imm = static_cast<int64_t>(window_of(d.space()));
  d.out().a = d.source(1, Type::u64);
  d.out().dst = d.destination(0, Type::pred);
  return d.run(is_space);
}

template <class T>
void select(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *a = warp.row<T>(instruction.a), *b = warp.row<T>(instruction.b);
  uint32_t chosen = *warp.row<uint32_t>(instruction.c) ^ (instruction.detail ? all_lanes : 0);
  alignas(64) T computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) computed[lane] = chosen >> lane & 1 ? a[lane] : b[lane];
  store_lanes(warp.row<T>(instruction.dst), computed, mask);
}

bool decode_selp(Decoder &d) {
  d.expect_operands(4, 4);
  Type type = d.type();
  d.out().a = d.source(1, type);
  d.out().b = d.source(2, type);
  d.out().c = d.source(3, Type::pred);
  d.out().detail = d.operand(3).negated;
  d.out().dst = d.destination(0, type);
  switch (ptx::bytes_of(type)) {
    case 2:
      return d.run(select<uint16_t>);
    case 4:
      return d.run(select<uint32_t>);
    case 8:
      return d.run(select<uint64_t>);
    default:
      return false;
  }
}

const Registration registration{
    {"mov", decode_mov}, {"cvta", decode_cvta}, {"isspacep", decode_isspacep}, {"selp", decode_selp}};

}  // namespace
}  // namespace fa::emu
