// mma.sync: which shapes and types there are (PTX ISA 9.7.14.5.14).
#include <array>
#include <string>

#include "exec/dispatch.h"
#include "exec/families/mma_wide.h"
#include "exec/launch.h"
#include "exec/short_sum.h"

namespace fa::emu {
namespace {

using namespace mma;
using ptx::Type;

/// One form of mma: types of elements and accumulators, the shape, and how many registers d, a, b and c have.
struct Form {
  std::string_view shape;
  Handler run;
  std::array<size_t, 4> registers;
};

/// 2 to the least exponent of a format of Eight.
constexpr float min_power(uint32_t kind) {
  return kind == Eight::e5m2 ? 0x1p-14f : 0x1p-6f;
}

/// As multiply<Eight, Sum, 16, depth>, with the short sums of SM 89: 16 products after the other 16.
template <class Sum, int depth>
void multiply_short(Warp &warp, const Instruction &instruction, uint32_t mask) {
  if (!warp.cta->launch->short_mma) return multiply<Eight, Sum, 16, depth>(warp, instruction, mask);
  constexpr int width = 16, tiles = depth / width, accumulators = 2 * Sum::registers;
  constexpr bool half_sum = std::is_same_v<Sum, HalfPairs>;
  const Slot *d = warp.list(instruction), *as = d + accumulators, *bs = as + 2 * tiles, *cs = bs + tiles;
  const uint32_t kind_a = instruction.detail & 15u, kind_b = instruction.detail >> 4 & 15u;
  alignas(64) float a[2][8 * width], b[width][8];
  Vector<float> sums[2][8];
  for (int half = 0; half < 2; half++) Sum::template read<float>(warp, cs + half * Sum::registers, sums[half]);
  for (int r = 0; r < tiles; r++) {
    unpack_columns<Eight, Sum, width>(warp.row<uint8_t>(bs[r]), b, kind_b);
    for (int half = 0; half < 2; half++) {
      const uint8_t *tile = warp.row<uint8_t>(as[half + 2 * r]);
      for (int i = 0; i < 8 * width; i += 8) Eight::values(tile + i, a[half] + i, kind_a);
      float *sum = reinterpret_cast<float *>(sums[half]);
      short_sum::multiply_tile(sum, 8, a[half], width, b[0], 8, 8, 8, width, true, min_power(kind_a), min_power(kind_b),
                               !half_sum);
      if (half_sum)
        for (int i = 0; i < 64; i++) sum[i] = float_from_half(half_from_float(sum[i]));
    }
  }
  for (int half = 0; half < 2; half++) Sum::template write<float>(warp, d + half * Sum::registers, sums[half], false);
}

template <class Element, class Sum, int rows, int depth>
constexpr Form form(std::string_view shape) {
  constexpr size_t width = sizeof(typename Element::Bits) == 8 ? 4 : 16 / sizeof(typename Element::Bits);
  constexpr size_t accumulators = rows / 8 * Sum::registers, tiles = depth / width;
  Handler run = multiply<Element, Sum, rows, depth>;
#ifdef FA_EMU_WIDE_MMA
  if constexpr (std::is_same_v<Sum, Pairs<float>> && rows == 16 && std::is_same_v<typename Element::Bits, uint16_t>)
    run = multiply_wide<Element, depth>;
#endif
  if constexpr (std::is_same_v<Element, Eight>) run = multiply_short<Sum, depth>;
  return {shape, run, {accumulators, rows / 8 * tiles, tiles, accumulators}};
}

template <size_t count>
const Form *find(const Form (&forms)[count], const Decoder &d) {
  for (const Form &one : forms)
    if (d.has(one.shape)) return &one;
  return nullptr;
}

constexpr Form half_to_float[] = {form<Half, Pairs<float>, 16, 8>("m16n8k8"),
                                  form<Half, Pairs<float>, 16, 16>("m16n8k16")};
constexpr Form half_to_half[] = {form<Half, HalfPairs, 16, 8>("m16n8k8"), form<Half, HalfPairs, 16, 16>("m16n8k16")};
constexpr Form bfloat_to_float[] = {form<Bfloat, Pairs<float>, 16, 8>("m16n8k8"),
                                    form<Bfloat, Pairs<float>, 16, 16>("m16n8k16")};
constexpr Form tensor32_to_float[] = {form<Tensor32, Pairs<float>, 16, 4>("m16n8k4"),
                                      form<Tensor32, Pairs<float>, 16, 8>("m16n8k8")};
constexpr Form eight_to_float[] = {form<Eight, Pairs<float>, 16, 16>("m16n8k16"),
                                   form<Eight, Pairs<float>, 16, 32>("m16n8k32")};
constexpr Form eight_to_half[] = {form<Eight, HalfPairs, 16, 16>("m16n8k16"),
                                  form<Eight, HalfPairs, 16, 32>("m16n8k32")};
constexpr Form byte_to_int[] = {form<Byte, Pairs<int32_t>, 8, 16>("m8n8k16"),
                                form<Byte, Pairs<int32_t>, 16, 16>("m16n8k16"),
                                form<Byte, Pairs<int32_t>, 16, 32>("m16n8k32")};
constexpr Form double_to_double[] = {
    form<Double, Pairs<double>, 8, 4>("m8n8k4"), form<Double, Pairs<double>, 16, 4>("m16n8k4"),
    form<Double, Pairs<double>, 16, 8>("m16n8k8"), form<Double, Pairs<double>, 16, 16>("m16n8k16")};

/// Types in the order of the text: d, a, b, c.
const Form *find(const Decoder &d) {
  Type to = d.type(0), a = d.type(1), b = d.type(2);
  bool float_sum = to == Type::f32, half_sum = to == Type::f16;
  if (d.type(3) != to) return nullptr;
  if (a == Type::f16 && b == a && float_sum) return find(half_to_float, d);
  if (a == Type::f16 && b == a && half_sum) return find(half_to_half, d);
  if (a == Type::bf16 && b == a && float_sum) return find(bfloat_to_float, d);
  if (a == Type::tf32 && b == a && float_sum) return find(tensor32_to_float, d);
  auto is_eight = [](Type type) { return type == Type::e4m3 || type == Type::e5m2; };
  if (is_eight(a) && is_eight(b))
    return float_sum ? find(eight_to_float, d) : half_sum ? find(eight_to_half, d) : nullptr;
  auto is_byte = [](Type type) { return type == Type::s8 || type == Type::u8; };
  if (is_byte(a) && is_byte(b) && to == Type::s32) return find(byte_to_int, d);
  if (a == Type::f64 && b == a && to == a) return find(double_to_double, d);
  return nullptr;
}

uint32_t kind_of(Type type) {
  if (type == Type::e5m2) return Eight::e5m2;
  return type == Type::s8 ? 1 : 0;
}

bool decode_mma(Decoder &d) {
  if (d.has("sp") || d.has("block_scale") || d.has("b1")) return false;
  const Form *found = find(d);
  if (!found) return false;
  if (!d.has("row") || !d.has("col")) d.fail("a is taken by rows and b by columns: .row.col");
  d.expect_operands(4, 4);
  Type held = d.type(0) == Type::f64 ? Type::b64 : Type::b32;
  std::vector<Slot> slots;
  for (size_t i = 0; i < 4; i++) {
    if (d.elements(i).size() != found->registers[i])
      d.fail("operand " + std::to_string(i + 1) + " must have " + std::to_string(found->registers[i]) + " registers");
    for (const ptx::Operand &one : d.elements(i))
      slots.push_back(i == 0 ? d.destination(one, held) : d.source(one, held));
  }
  d.list(slots);
  d.out().detail =
      static_cast<uint16_t>(kind_of(d.type(1)) | kind_of(d.type(2)) << 4 | (d.has("satfinite") ? 1u << 8 : 0));
  d.converge_warp();
  return d.run(found->run);
}

const Registration registration{{"mma", decode_mma}};

}  // namespace

namespace mma {

const float *Eight::table(uint32_t kind) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, kinds> made;
    for (uint32_t bits = 0; bits < 256; bits++) {
      uint32_t exponent = bits >> 3 & 15, mantissa = bits & 7;
      float value = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-9f
                                  : std::bit_cast<float>((exponent + 120) << 23 | mantissa << 20);
      if ((bits & 0x7f) == 0x7f) value = std::bit_cast<float>(0x7fffffffu);
      made[e4m3][bits] = bits & 0x80 ? -value : value;
      made[e5m2][bits] = float_from_half(static_cast<uint16_t>(bits << 8));  // the upper byte of an f16
    }
    return made;
  }();
  return tables[kind].data();
}

}  // namespace mma
}  // namespace fa::emu
