// set, setp of pairs of halves, slct, testp (PTX ISA 9.7.6 and 9.7.3.1). Comparisons are chosen while they run: these
// are rare.
#include <cmath>

#include "exec/dispatch.h"
#include "exec/families/compare.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// detail of set and setp: the source's Type, then these. target: the Compare.
enum Detail : uint16_t { type_bits = 255, combine_shift = 8, negated = 1 << 10, flush_subnormal = 1 << 11 };
/// imm of set: true in the result; bit 40: whether it is a pair.
constexpr int pair_shift = 40;

template <class T, class F>
uint32_t compared(const Warp &warp, const Instruction &instruction, uint32_t step, uint32_t first, F value) {
  const T *a = warp.row<T>(instruction.a) + first, *b = warp.row<T>(instruction.b) + first;
  Compare compare = static_cast<Compare>(instruction.target);
  return collect([&](uint32_t lane) { return compare_values(compare, value(a[lane * step]), value(b[lane * step])); });
}

/// One bit a lane; part: of a pair, 0 the lower, 1 the upper.
uint32_t outcome(const Warp &warp, const Instruction &instruction, uint32_t part) {
  auto same = [](auto a) { return a; };
  auto half = [&](uint16_t a) {
    return instruction.detail & flush_subnormal && (a & 0x7c00) == 0 ? 0.f : float_from_half(a);
  };
  auto bfloat = [](uint16_t a) { return float_from_bfloat(a); };
  auto single = [&](float a) { return instruction.detail & flush_subnormal ? flush(a) : a; };
  switch (static_cast<Type>(instruction.detail & type_bits)) {
    case Type::u16:
    case Type::b16:
      return compared<uint16_t>(warp, instruction, 1, 0, same);
    case Type::s16:
      return compared<int16_t>(warp, instruction, 1, 0, same);
    case Type::u32:
    case Type::b32:
      return compared<uint32_t>(warp, instruction, 1, 0, same);
    case Type::s32:
      return compared<int32_t>(warp, instruction, 1, 0, same);
    case Type::u64:
    case Type::b64:
      return compared<uint64_t>(warp, instruction, 1, 0, same);
    case Type::s64:
      return compared<int64_t>(warp, instruction, 1, 0, same);
    case Type::f32:
      return compared<float>(warp, instruction, 1, 0, single);
    case Type::f64:
      return compared<double>(warp, instruction, 1, 0, same);
    case Type::f16:
      return compared<uint16_t>(warp, instruction, 1, 0, half);
    case Type::bf16:
      return compared<uint16_t>(warp, instruction, 1, 0, bfloat);
    case Type::f16x2:
      return compared<uint16_t>(warp, instruction, 2, part, half);
    default:
      return compared<uint16_t>(warp, instruction, 2, part, bfloat);
  }
}

uint32_t combined(const Warp &warp, const Instruction &instruction, uint32_t bits) {
  uint32_t operation = instruction.detail >> combine_shift & 3;
  if (operation == 0) return bits;
  uint32_t c = *warp.row<uint32_t>(instruction.c) ^ (instruction.detail & negated ? all_lanes : 0);
  return operation == 1 ? bits & c : operation == 2 ? bits | c : bits ^ c;
}

template <class R>
void set_values(Warp &warp, const Instruction &instruction, uint32_t mask) {
  bool pair = instruction.imm >> pair_shift & 1;
  uint32_t yes = static_cast<uint32_t>(instruction.imm);
  uint32_t low = combined(warp, instruction, outcome(warp, instruction, 0));
  uint32_t high = pair ? combined(warp, instruction, outcome(warp, instruction, 1)) : 0;
  R computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++)
    computed[lane] = static_cast<R>((low >> lane & 1 ? yes : 0) | (high >> lane & 1 ? yes << 16 : 0));
  store_lanes(warp.row<R>(instruction.dst), computed, mask);
}

/// setp of pairs: the lower ones' outcome, and in list[0] the upper ones'.
void set_pair_predicates(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t low = combined(warp, instruction, outcome(warp, instruction, 0));
  uint32_t high = combined(warp, instruction, outcome(warp, instruction, 1));
  store_predicate(warp.row<uint32_t>(instruction.dst), low, mask);
  if (instruction.list_count) store_predicate(warp.row<uint32_t>(warp.list(instruction)[0]), high, mask);
}

/// Sources and detail; false where the comparison or type is not known.
bool decode_comparison(Decoder &d, Type source) {
  Compare compare = compare_of(d);
  bool known = (ptx::is_integer(source) && ptx::bytes_of(source) >= 2) || source == Type::f32 || source == Type::f64 ||
               source == Type::f16 || source == Type::bf16 || source == Type::f16x2 || source == Type::bf16x2;
  if (compare == Compare::none || !known) return false;
  uint32_t operation = d.has("and") ? 1 : d.has("or") ? 2 : d.has("xor") ? 3 : 0;
  d.expect_operands(operation ? 4 : 3, operation ? 4 : 3);
  d.out().a = d.source(1, source);
  d.out().b = d.source(2, source);
  if (operation) d.out().c = d.source(3, Type::pred);
  d.out().target = static_cast<uint32_t>(compare);
  d.out().detail =
      static_cast<uint16_t>(static_cast<uint32_t>(source) | operation << combine_shift |
                            (operation && d.operand(3).negated ? negated : 0) | (d.has("ftz") ? flush_subnormal : 0));
  return true;
}

uint32_t truth(Type type) {
  switch (type) {
    case Type::f32:
      return 0x3f800000;
    case Type::f16:
    case Type::f16x2:
      return 0x3c00;
    case Type::bf16:
    case Type::bf16x2:
      return 0x3f80;
    default:
      return UINT32_MAX;
  }
}

bool decode_set(Decoder &d) {
  Type to = d.type(0), source = d.type(1);
  uint32_t bytes = ptx::bytes_of(to);
  if ((bytes != 2 && bytes != 4) || !decode_comparison(d, source)) return false;
  bool pair = source == Type::f16x2 || source == Type::bf16x2;
  if (pair && to != source) d.fail("set of a pair gives a pair of the same type");
  d.out().imm = static_cast<int64_t>(truth(to) | uint64_t{pair} << pair_shift);
  d.out().dst = d.destination(0, to);
  return d.run(bytes == 2 ? set_values<uint16_t> : set_values<uint32_t>);
}

bool decode_setp(Decoder &d) {
  Type type = d.type();
  if ((type != Type::f16x2 && type != Type::bf16x2) || !decode_comparison(d, type)) return false;
  d.out().dst = d.destination(0, Type::pred);
  if (Slot second = d.second_destination(0); second.exists()) d.list({second});
  return d.run(set_pair_predicates);
}

/// slct: a where c is not negative, else b.
template <class T, class C>
Handler select_handler(bool flushing) {
  if (flushing)
    return elementwise<T, T, T, C>(
        [](T a, T b, C c) { return static_cast<float>(c) >= 0 || -c < C(0x1p-126) ? a : b; });
  return elementwise<T, T, T, C>([](T a, T b, C c) { return c >= 0 ? a : b; });
}

template <class T>
Handler select_by(Type type, bool flushing) {
  if (type == Type::s32) return select_handler<T, int32_t>(false);
  return type == Type::f32 ? select_handler<T, float>(flushing) : nullptr;
}

bool decode_slct(Decoder &d) {
  Type type = d.type(0), by = d.type(1);
  uint32_t bytes = ptx::bytes_of(type);
  Handler handler = bytes == 2   ? select_by<uint16_t>(by, d.has("ftz"))
                    : bytes == 4 ? select_by<uint32_t>(by, d.has("ftz"))
                    : bytes == 8 ? select_by<uint64_t>(by, d.has("ftz"))
                                 : nullptr;
  if (!handler) return false;
  d.expect_operands(4, 4);
  d.out().a = d.source(1, type);
  d.out().b = d.source(2, type);
  d.out().c = d.source(3, by);
  d.out().dst = d.destination(0, type);
  return d.run(handler);
}

/// detail: the classes that the test is true for, a bit each: FP_ZERO and so on.
template <class T>
void test_class(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *a = warp.row<T>(instruction.a);
  uint32_t bits = collect([&](uint32_t lane) { return instruction.detail >> std::fpclassify(a[lane]) & 1; });
  store_predicate(warp.row<uint32_t>(instruction.dst), bits, mask);
}

bool decode_testp(Decoder &d) {
  constexpr int zero = 1 << FP_ZERO, subnormal = 1 << FP_SUBNORMAL, normal = 1 << FP_NORMAL;
  constexpr int infinite = 1 << FP_INFINITE, nan = 1 << FP_NAN, finite = zero | subnormal | normal;
  int classes = d.has("finite")       ? finite
                : d.has("infinite")   ? infinite
                : d.has("number")     ? finite | infinite
                : d.has("notanumber") ? nan
                : d.has("normal")     ? normal
                : d.has("subnormal")  ? subnormal
                                      : 0;
  if (classes == 0 || (d.type() != Type::f32 && d.type() != Type::f64)) return false;
  d.expect_operands(2, 2);
  d.out().a = d.source(1, d.type());
  d.out().detail = static_cast<uint16_t>(classes);
  d.out().dst = d.destination(0, Type::pred);
  return d.run(d.type() == Type::f32 ? test_class<float> : test_class<double>);
}

const Registration registration{
    {"set", decode_set}, {"setp", decode_setp}, {"slct", decode_slct}, {"testp", decode_testp}};

}  // namespace
}  // namespace fa::emu
