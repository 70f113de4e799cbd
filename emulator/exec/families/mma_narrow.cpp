// mma.sync of elements narrower than a byte, or scaled by blocks (PTX ISA 9.7.14.5 and 9.7.14.3): integers of 4 bits,
// single bits, e3m2, e2m3 and e2m1 each in a byte (.kind::f8f6f4), and .block_scale of all these formats.
// Fragments are laid out as those of exec/families/mma.h: a register is a tile of 8 rows, 4 lanes a row. Element by
// element, as few kernels use these.
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/format.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

enum Flag : uint8_t { half_sum = 1, saturate = 2, differ = 4, in_bytes = 8 };

/// The form in the text, as Instruction::imm.
struct Form {
  Type a, b;
  Type scale;  // of blocks; none
  uint8_t blocks = 0;
  uint8_t rows = 16;
  uint8_t flags = 0;
  uint16_t depth = 0;
};
static_assert(sizeof(Form) == sizeof(Instruction::imm));

/// e2m1 in a byte has two bits below it, where e2m3 has more mantissa.
uint32_t bits_of(Type type, bool bytes) {
  if (type == Type::b1) return 1;
  return type == Type::u4 || type == Type::s4 || (type == Type::e2m1 && !bytes) ? 4 : 8;
}

double value_of(Type type, uint32_t code, bool bytes) {
  switch (type) {
    case Type::s4:
      return static_cast<int32_t>(code << 28) >> 28;
    case Type::e4m3:
      return decode<e4m3_format>(code);
    case Type::e5m2:
      return decode<e5m2_format>(code);
    case Type::e3m2:
      return decode<e3m2_format>(code & 0x3f);
    case Type::e2m3:
      return decode<e2m3_format>(code & 0x3f);
    case Type::e2m1:
      return decode<e2m1_format>((bytes ? code >> 2 : code) & 0xf);
    case Type::ue8m0:
      return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(code) - 127);
    case Type::ue4m3:
      return decode<e4m3_format>(code & 0x7f);
    default:
      return code;
  }
}

/// Element k of a row of a fragment, whose registers are tiles: the row's tiles are `pitch` registers apart.
double element(const Warp &warp, const Slot *slots, size_t pitch, Type type, bool bytes, uint32_t row, uint32_t k) {
  uint32_t bits = bits_of(type, bytes), each = 32 / bits;
  uint32_t lane = 4 * row + k % (4 * each) / each;
  uint32_t word = warp.row<uint32_t>(slots[k / (4 * each) * pitch])[lane];
  return value_of(type, word >> k % each * bits & ((1u << bits) - 1), bytes);
}

/// slots: data, number of its byte, number of the thread. One value of the factors of rows (of columns).
class Scales {
 public:
  Scales(const Warp &warp, const Instruction &instruction, const Slot *slots, const Form &form, uint32_t threads)
      : data_(warp.row<uint32_t>(slots[0])),
        byte_(warp.row<uint16_t>(slots[1])[0]),
        thread_(warp.row<uint16_t>(slots[2])[0]),
        type_(form.scale) {
    if (byte_ + form.blocks > 4 || byte_ % form.blocks != 0 || thread_ >= threads)
      fault(warp, instruction, FaultKind::illegal_instruction, 0,
            "there is no byte " + std::to_string(byte_) + " of thread " + std::to_string(thread_) + " for the factors");
  }
  uint32_t thread() const { return thread_; }
  double at(uint32_t lane, uint32_t block) const {
    return value_of(type_, data_[lane] >> 8 * (byte_ + block) & 255, false);
  }

 private:
  const uint32_t *data_;
  uint32_t byte_, thread_;
  Type type_;
};

/// Accumulator (row, column) of eight rows, and back.
double read_sum(const Warp &warp, const Slot *slots, const Form &form, bool whole, uint32_t row, uint32_t column) {
  uint32_t lane = 4 * row + column / 2;
  if (form.flags & half_sum) return float_from_half(warp.row<uint16_t>(slots[0])[2 * lane + column % 2]);
  Slot slot = slots[column % 2];
  return whole ? warp.row<int32_t>(slot)[lane] : static_cast<double>(warp.row<float>(slot)[lane]);
}

void write_sum(const Warp &warp, const Slot *slots, const Form &form, bool whole, uint32_t row, uint32_t column,
               double value) {
  uint32_t lane = 4 * row + column / 2;
  if (form.flags & half_sum) {
    warp.row<uint16_t>(slots[0])[2 * lane + column % 2] =
        static_cast<uint16_t>(encode<f16_format, Round::nearest, false>(value));
    return;
  }
  Slot slot = slots[column % 2];
  if (!whole) {
    warp.row<float>(slot)[lane] = canonical(static_cast<float>(value));
    return;
  }
  if (form.flags & saturate) value = std::fmin(std::fmax(value, INT32_MIN), INT32_MAX);
  warp.row<uint32_t>(slot)[lane] = static_cast<uint32_t>(static_cast<int64_t>(value));
}

/// list: registers of d, a, b, c, and with factors their data, byte and thread of a and b.
void multiply(Warp &warp, const Instruction &instruction, uint32_t) {
  constexpr uint32_t columns = 8, max_rows = 16, max_depth = 256;
  const Form form = std::bit_cast<Form>(instruction.imm);
  const bool bytes = form.flags & in_bytes, whole = form.a >= Type::b1;
  const uint32_t halves = form.rows / 8u, sums = form.flags & half_sum ? 1 : 2;
  const uint32_t tiles = form.depth * bits_of(form.a, bytes) / 128;
  const Slot *d = warp.list(instruction), *as = d + sums * halves, *bs = as + halves * tiles, *cs = bs + tiles;
  const Slot *scales = cs + sums * halves;
  static thread_local double a[max_rows][max_depth], b[columns][max_depth];
  for (uint32_t k = 0; k < form.depth; k++) {
    for (uint32_t row = 0; row < form.rows; row++)
      a[row][k] = element(warp, as + row / 8, halves, form.a, bytes, row % 8, k);
    for (uint32_t column = 0; column < columns; column++) b[column][k] = element(warp, bs, 1, form.b, bytes, column, k);
  }
  if (form.blocks) {
    Scales of_a(warp, instruction, scales, form, 2), of_b(warp, instruction, scales + 3, form, 4);
    uint32_t length = form.depth / form.blocks;
    for (uint32_t k = 0; k < form.depth; k++) {
      for (uint32_t row = 0; row < form.rows; row++)
        a[row][k] *= of_a.at(4 * (row % 8) + 2 * of_a.thread() + row / 8, k / length);
      for (uint32_t column = 0; column < columns; column++)
        b[column][k] *= of_b.at(4 * column + of_b.thread(), k / length);
    }
  }
  double sum[max_rows][columns];
  for (uint32_t row = 0; row < form.rows; row++)
    for (uint32_t column = 0; column < columns; column++) {
      double products = 0;
      for (uint32_t k = 0; k < form.depth; k++)
        products += form.flags & differ ? a[row][k] != b[column][k] : a[row][k] * b[column][k];
      sum[row][column] = products + read_sum(warp, cs + row / 8 * sums, form, whole, row % 8, column);
    }
  for (uint32_t row = 0; row < form.rows; row++)
    for (uint32_t column = 0; column < columns; column++)
      write_sum(warp, d + row / 8 * sums, form, whole, row % 8, column, sum[row][column]);
}

bool is_small_float(Type type) {
  return type == Type::e4m3 || type == Type::e5m2 || type == Type::e3m2 || type == Type::e2m3 || type == Type::e2m1;
}

bool find_integers(const Decoder &d, Form &form) {
  auto is_nibble = [](Type type) { return type == Type::u4 || type == Type::s4; };
  bool bits = form.a == Type::b1 && form.b == Type::b1 && d.has("popc") && (d.has("and") || d.has("xor"));
  if (d.type() != Type::s32 || !(bits || (is_nibble(form.a) && is_nibble(form.b)))) return false;
  if (d.has("xor")) form.flags |= differ;
  form.rows = d.has(bits ? "m8n8k128" : "m8n8k32") ? 8 : 16;
  uint16_t shorter = bits ? 128 : 32;
  bool doubled = d.has(bits ? "m16n8k256" : "m16n8k64");
  form.depth = static_cast<uint16_t>(doubled ? 2 * shorter : shorter);
  return form.rows == 8 || doubled || d.has(bits ? "m16n8k128" : "m16n8k32");
}

/// .kind::f8f6f4 and the kinds with factors of blocks.
bool find_floats(const Decoder &d, Form &form) {
  if (!is_small_float(form.a) || !is_small_float(form.b)) return false;
  bool wide = d.has("kind::f8f6f4") || d.has("kind::mxf8f6f4");
  if (wide) form.flags |= in_bytes;
  if (d.type() == Type::f16 && d.has("kind::f8f6f4"))
    form.flags |= half_sum;
  else if (d.type() != Type::f32)
    return false;
  form.depth = wide ? 32 : 64;
  if (!d.has(wide ? "m16n8k32" : "m16n8k64")) return false;
  if (d.has("kind::f8f6f4")) return !d.has("block_scale");
  form.scale = d.type(4);
  if (!d.has("block_scale")) return false;
  if (d.has("kind::mxf8f6f4")) form.blocks = 1;
  if (d.has("kind::mxf4") || d.has("scale_vec::2X")) form.blocks = 2;
  if (d.has("kind::mxf4nvf4") && d.has("scale_vec::4X")) form.blocks = 4;
  bool nibbles = form.a == Type::e2m1 && form.b == Type::e2m1;
  bool known = form.scale == Type::ue8m0 || (form.scale == Type::ue4m3 && form.blocks == 4);
  return form.blocks && known && (wide || nibbles);
}

void add_registers(Decoder &d, size_t operand, size_t count, std::vector<Slot> &slots) {
  if (d.elements(operand).size() != count)
    d.fail("operand " + std::to_string(operand + 1) + " must have " + std::to_string(count) + " registers");
  for (const ptx::Operand &one : d.elements(operand))
    slots.push_back(operand == 0 ? d.destination(one, Type::b32) : d.source(one, Type::b32));
}

bool decode_narrow(Decoder &d) {
  if (d.has("sp") || d.has("sp::ordered_metadata") || d.type(3) != d.type()) return false;
  Form form{d.type(1), d.type(2), Type::none};
  if (!find_integers(d, form) && !find_floats(d, form)) return false;
  if (!d.has("row") || !d.has("col")) d.fail("a is taken by rows and b by columns: .row.col");
  if (d.has("satfinite")) form.flags |= saturate;
  size_t expected = form.blocks ? 8 : 4;
  d.expect_operands(expected, expected);
  size_t halves = form.rows / 8u, sums = halves * (form.flags & half_sum ? 1 : 2);
  size_t tiles = form.depth * bits_of(form.a, form.flags & in_bytes) / 128;
  std::vector<Slot> slots;
  add_registers(d, 0, sums, slots);
  add_registers(d, 1, halves * tiles, slots);
  add_registers(d, 2, tiles, slots);
  add_registers(d, 3, sums, slots);
  for (size_t i = 4; i < expected; i += 2) {
    add_registers(d, i, 1, slots);
    if (d.elements(i + 1).size() != 2) d.fail("expected {byte, thread} behind the factors");
    for (const ptx::Operand &one : d.elements(i + 1)) slots.push_back(d.source(one, Type::u16));
  }
  d.list(slots);
  d.out().imm = std::bit_cast<int64_t>(form);
  d.converge_warp();
  return d.run(multiply);
}

const Registration registration{{"mma", decode_narrow}};

}  // namespace
}  // namespace fa::emu
