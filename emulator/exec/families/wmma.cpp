// wmma.load, wmma.store and wmma.mma (PTX ISA 9.7.14.4). Which lane has which elements of a fragment is left open by
// the ISA: here element e, counted row by row, is number e / 32 of lane e % 32, in all fragments; where a fragment has
// more places than elements, the elements come again.
#include <array>
#include <cstring>
#include <string>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

struct Shape {
  std::string_view name;
  uint32_t m, n, k;
};
constexpr Shape shapes[] = {{"m16n16k16", 16, 16, 16},
                            {"m32n8k16", 32, 8, 16},
                            {"m8n32k16", 8, 32, 16},
                            {"m16n16k8", 16, 16, 8},
                            {"m8n8k4", 8, 8, 4}};
constexpr uint32_t max_elements = 512;

const Shape *shape_of(const Decoder &d) {
  for (const Shape &shape : shapes)
    if (d.has(shape.name)) return &shape;
  return nullptr;
}

uint32_t register_bytes(Type type) {
  return type == Type::f64 ? 8 : 4;
}

/// Element i of a lane in a fragment's registers.
uint8_t *place(const Warp &warp, const Slot *registers, uint32_t bytes, uint32_t wide, uint32_t lane, uint32_t i) {
  uint32_t each = wide / bytes;
  return warp.row<uint8_t>(registers[i / each]) + lane * wide + i % each * bytes;
}

/// The detail of a fragment in memory; target: columns, from bit 8 on elements.
enum Flag : uint16_t { element_bytes = 15, by_columns = 16 };

/// The addresses of element i of every lane. list: the registers, then the stride between rows (or columns).
void element_addresses(const Warp &warp, const Instruction &instruction, uint32_t i, uint64_t *address) {
  uint32_t columns = instruction.target & 255, bytes = instruction.detail & element_bytes;
  uint32_t stride = warp.row<uint32_t>(warp.list(instruction)[instruction.list_count - 1])[0];
  addresses(warp, instruction, address);
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint32_t e = i * lanes + lane, row = e / columns, column = e % columns;
    bool turned = instruction.detail & by_columns;
    address[lane] += (turned ? uint64_t{column} * stride + row : uint64_t{row} * stride + column) * bytes;
  }
}

template <bool stores>
void transfer(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const Slot *registers = warp.list(instruction);
  uint32_t bytes = instruction.detail & element_bytes, wide = bytes == 8 ? 8 : 4, own = instruction.target >> 8;
  uint32_t places = (instruction.list_count - 1u) * wide / bytes;
  own /= lanes;
  for (uint32_t i = 0; i < own; i++) {
    Resolved memory;
    element_addresses(warp, instruction, i, memory.address);
    resolve(warp, instruction, instruction.space, mask, bytes, bytes, memory);
    observe(warp, instruction, stores ? AccessKind::write : AccessKind::read, mask, bytes, memory);
    for (uint32_t lane = 0; lane < lanes; lane++)
      for (uint32_t copy = i; copy < (stores ? i + 1 : places); copy += own) {
        uint8_t *held = place(warp, registers, bytes, wide, lane, copy);
        stores ? std::memcpy(memory.at[lane], held, bytes) : std::memcpy(held, memory.at[lane], bytes);
      }
  }
}

/// Elements of a fragment as numbers. T: float, double or int64_t.
template <class T>
void read_fragment(const Warp &warp, const Slot *registers, Type type, uint32_t count, T *out) {
  uint32_t bytes = ptx::bytes_of(type), wide = register_bytes(type);
  for (uint32_t e = 0; e < count; e++) {
    const uint8_t *at = place(warp, registers, bytes, wide, e % lanes, e / lanes);
    uint64_t bits = 0;
    std::memcpy(&bits, at, bytes);
    if (type == Type::f16)
      out[e] = static_cast<T>(float_from_half(static_cast<uint16_t>(bits)));
    else if (type == Type::bf16)
      out[e] = static_cast<T>(float_from_bfloat(static_cast<uint16_t>(bits)));
    else if (type == Type::tf32)
      out[e] = static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits) & 0xffffe000u));
    else if (type == Type::f32)
      out[e] = static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    else if (type == Type::f64)
      out[e] = static_cast<T>(std::bit_cast<double>(bits));
    else
      out[e] = type == Type::s8    ? static_cast<T>(static_cast<int8_t>(bits))
               : type == Type::s32 ? static_cast<T>(static_cast<int32_t>(bits))
                                   : static_cast<T>(bits);
  }
}

template <class T>
uint64_t bits_of(Type type, T value, bool saturate) {
  if (type == Type::f16) return half_from_float(static_cast<float>(value));
  if (type == Type::f32) return std::bit_cast<uint32_t>(canonical(static_cast<float>(value)));
  if (type == Type::f64) return std::bit_cast<uint64_t>(static_cast<double>(value));
  if (saturate) value = value < T(INT32_MIN) ? T(INT32_MIN) : value > T(INT32_MAX) ? T(INT32_MAX) : value;
  return static_cast<uint32_t>(static_cast<int64_t>(value));
}

/// Types of d, a, b, c a byte each in imm; target: number of the shape, bit 8: .satfinite; detail: registers of d, from
/// bit 4 on of a, from bit 8 on of b.
template <class T>
void multiply(Warp &warp, const Instruction &instruction, uint32_t) {
  const Shape &shape = shapes[instruction.target & 255];
  auto type = [&](int i) { return static_cast<Type>(instruction.imm >> 8 * i & 255); };
  const Slot *d = warp.list(instruction), *as = d + (instruction.detail & 15),
             *bs = as + (instruction.detail >> 4 & 15);
  const Slot *cs = bs + (instruction.detail >> 8);
  std::array<T, max_elements> a, b, sum;
  read_fragment(warp, as, type(1), shape.m * shape.k, a.data());
  read_fragment(warp, bs, type(2), shape.k * shape.n, b.data());
  read_fragment(warp, cs, type(3), shape.m * shape.n, sum.data());
  for (uint32_t row = 0; row < shape.m; row++)
    for (uint32_t k = 0; k < shape.k; k++)
      for (uint32_t column = 0; column < shape.n; column++)
        sum[row * shape.n + column] += a[row * shape.k + k] * b[k * shape.n + column];
  uint32_t bytes = ptx::bytes_of(type(0)), wide = register_bytes(type(0));
  for (uint32_t e = 0; e < shape.m * shape.n; e++) {
    uint64_t bits = bits_of(type(0), sum[e], instruction.target >> 8);
    std::memcpy(place(warp, d, bytes, wide, e % lanes, e / lanes), &bits, bytes);
  }
}

/// Registers of a fragment: those of f16 factors have room for all elements twice (of 8 columns four times).
size_t fragment_registers(Type type, uint32_t elements, bool factor) {
  if (type == Type::f16 && factor) return 8;
  return elements * ptx::bytes_of(type) / lanes / register_bytes(type);
}

void add_fragment(Decoder &d, size_t operand, Type type, size_t count, bool writes, std::vector<Slot> &slots) {
  if (d.elements(operand).size() != count)
    d.fail("operand " + std::to_string(operand + 1) + " must have " + std::to_string(count) + " registers");
  Type held = type == Type::f64 ? Type::b64 : Type::b32;
  for (const ptx::Operand &one : d.elements(operand))
    slots.push_back(writes ? d.destination(one, held) : d.source(one, held));
}

bool is_known(Type type, bool factor) {
  if (type == Type::f16 || type == Type::f64) return true;
  if (factor) return type == Type::bf16 || type == Type::tf32 || type == Type::s8 || type == Type::u8;
  return type == Type::f32 || type == Type::s32;
}

/// wmma.load.x r, [p], stride; wmma.store.d [p], r, stride.
bool decode_transfer(Decoder &d, const Shape &shape) {
  bool stores = d.has("store"), is_a = d.has("a"), is_b = d.has("b"), turned = d.has("col");
  if (!is_known(d.type(), is_a || is_b)) return false;
  uint32_t rows = is_b ? shape.k : shape.m, columns = is_a ? shape.k : shape.n;
  d.expect_operands(2, 3);
  d.address(stores ? 0 : 1);
  std::vector<Slot> slots;
  Slot stride = d.count() == 3 ? d.source(2, Type::u32) : d.constant(turned ? rows : columns, 4);
  add_fragment(d, stores ? 1 : 0, d.type(), fragment_registers(d.type(), rows * columns, is_a || is_b), !stores, slots);
  slots.push_back(stride);
  d.list(slots);
  d.out().target = columns | rows * columns << 8;
  d.out().detail = static_cast<uint16_t>(ptx::bytes_of(d.type()) | (turned ? by_columns : 0));
  d.converge_warp();
  return d.run(stores ? transfer<true> : transfer<false>);
}

/// For f16 factors the instruction names the types of d and c alone.
bool decode_multiply(Decoder &d, const Shape &shape) {
  bool halves = d.opcode().types.size() == 2;
  Type types[] = {d.type(0), halves ? Type::f16 : d.type(1), halves ? Type::f16 : d.type(2), d.type(halves ? 1 : 3)};
  if (!is_known(types[0], false) || !is_known(types[3], false)) return false;
  if (!is_known(types[1], true) || types[1] != types[2]) return false;
  d.expect_operands(4, 4);
  uint32_t sums = shape.m * shape.n;
  const uint32_t elements[] = {sums, shape.m * shape.k, shape.k * shape.n, sums};
  std::vector<Slot> slots;
  size_t counts[4];
  for (size_t i = 0; i < 4; i++) {
    counts[i] = fragment_registers(types[i], elements[i], i == 1 || i == 2);
    add_fragment(d, i, types[i], counts[i], i == 0, slots);
    d.out().imm |= static_cast<int64_t>(types[i]) << 8 * i;
  }
  d.list(slots);
  d.out().target = static_cast<uint32_t>(&shape - shapes) | (d.has("satfinite") ? 1u << 8 : 0);
  d.out().detail = static_cast<uint16_t>(counts[0] | counts[1] << 4 | counts[2] << 8);
  d.converge_warp();
  if (types[0] == Type::f64) return d.run(multiply<double>);
  return d.run(types[0] == Type::s32 ? multiply<int64_t> : multiply<float>);
}

bool decode_wmma(Decoder &d) {
  const Shape *shape = shape_of(d);
  if (!shape) return false;
  if (d.has("load") || d.has("store")) return decode_transfer(d, *shape);
  return d.has("mma") && decode_multiply(d, *shape);
}

const Registration registration{{"wmma", decode_wmma}};

}  // namespace
}  // namespace fa::emu
