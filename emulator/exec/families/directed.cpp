// f32, f32x2 and f64 arithmetic rounded toward zero, down or up: add sub mul fma mad div rcp sqrt with .rz .rm .rp (PTX
// ISA 9.7.3). The host's own rounding mode does it; the values pass through volatile variables, so that the compiler
// cannot move an operation out of the lines where that mode is set. In every rounding: add, sub and fma of f32 that
// take f16 or bf16, too (9.7.5, mixed precision).
#include <cfenv>
#include <cmath>

#include "exec/number.h"
#include "exec/packed.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// Instruction::detail: the host's mode number, and these.
enum Modifier : uint16_t { mode_bits = 3, flush_subnormal = 4, saturate = 8 };
constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

template <class T>
T flushed(uint16_t detail, T value) {
  if constexpr (sizeof(T) == 4)
    if (detail & flush_subnormal) return flush(value);
  return value;
}

template <class F>
struct Directed {
  template <class T, class... More>
  T operator()(uint16_t detail, T first, More... more) const {
    const volatile T sources[] = {flushed(detail, first), flushed(detail, more)...};
    std::fesetround(modes[detail & mode_bits]);
    volatile T rounded = apply<T>(sources, std::make_index_sequence<1 + sizeof...(More)>{});
    std::fesetround(FE_TONEAREST);
    T result = flushed(detail, T{rounded});
    if (detail & saturate) result = result > 0 ? (result < 1 ? result : T{1}) : T{0};
    if constexpr (sizeof(T) == 4) result = canonical(result);
    return result;
  }
  template <class T, size_t... i>
  static T apply(const volatile T *sources, std::index_sequence<i...>) {
    return F{}(T{sources[i]}...);
  }
};

uint16_t modifiers_of(const Decoder &d) {
  uint16_t mode = d.has("rz") ? 1 : d.has("rm") ? 2 : d.has("rp") ? 3 : 0;
  return static_cast<uint16_t>(mode | (d.has("ftz") ? flush_subnormal : 0) | (d.has("sat") ? saturate : 0));
}

template <size_t sources, class F>
bool decode_directed(Decoder &d, F) {
  uint16_t detail = modifiers_of(d);
  if ((detail & mode_bits) == 0 || d.opcode().types.size() != 1) return false;
  d.out().detail = detail;
  switch (d.type()) {
    case Type::f32:
      return same_type_operands(d, packed<uint32_t, float, Directed<F>, sources>, sources, Type::f32);
    case Type::f32x2:
      return same_type_operands(d, packed<uint64_t, float, Directed<F>, sources>, sources, Type::f32x2);
    case Type::f64:
      return same_type_operands(d, packed<uint64_t, double, Directed<F>, sources>, sources, Type::f64);
    default:
      return false;
  }
}

/// All sources but the last are f16 or bf16, which f32 holds exactly.
template <float (*value)(uint16_t), class F, size_t sources>
void mixed(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint16_t *a = warp.row<uint16_t>(instruction.a), *b = warp.row<uint16_t>(instruction.b);
  const float *last = warp.row<float>(sources == 2 ? instruction.b : instruction.c);
  float computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    if constexpr (sources == 2)
      computed[lane] = Directed<F>{}(instruction.detail, value(a[lane]), last[lane]);
    else
      computed[lane] = Directed<F>{}(instruction.detail, value(a[lane]), value(b[lane]), last[lane]);
  }
  store_lanes(warp.row<float>(instruction.dst), computed, mask);
}

/// d, a, c or d, a, b, c: the type of all but d and c is the second one.
template <size_t sources, class F>
bool decode_mixed(Decoder &d, F) {
  Type narrow = d.type(1);
  if (d.opcode().types.size() != 2 || d.type() != Type::f32 || (narrow != Type::f16 && narrow != Type::bf16))
    return false;
  d.expect_operands(sources + 1, sources + 1);
  Instruction &out = d.out();
  out.detail = modifiers_of(d);
  Slot *slots[] = {&out.a, &out.b, &out.c};
  for (size_t i = 0; i < sources; i++) *slots[i] = d.source(i + 1, i + 1 < sources ? narrow : Type::f32);
  out.dst = d.destination(0, Type::f32);
  return d.run(narrow == Type::f16 ? mixed<float_from_half, F, sources> : mixed<float_from_bfloat, F, sources>);
}

template <size_t sources, class F>
bool decode_either(Decoder &d, F f) {
  return decode_directed<sources>(d, f) || decode_mixed<sources>(d, f);
}

bool decode_add(Decoder &d) {
  return decode_either<2>(d, [](auto a, auto b) { return a + b; });
}
bool decode_sub(Decoder &d) {
  return decode_either<2>(d, [](auto a, auto b) { return a - b; });
}
bool decode_mul(Decoder &d) {
  return decode_directed<2>(d, [](auto a, auto b) { return a * b; });
}
bool decode_fma(Decoder &d) {
  return decode_either<3>(d, [](auto a, auto b, auto c) { return std::fma(a, b, c); });
}
bool decode_div(Decoder &d) {
  return decode_directed<2>(d, [](auto a, auto b) { return a / b; });
}
bool decode_rcp(Decoder &d) {
  return decode_directed<1>(d, [](auto a) { return 1 / a; });
}
bool decode_sqrt(Decoder &d) {
  return decode_directed<1>(d, [](auto a) { return std::sqrt(a); });
}

const Registration registration{{"add", decode_add}, {"sub", decode_sub}, {"mul", decode_mul}, {"fma", decode_fma},
                                {"mad", decode_fma}, {"div", decode_div}, {"rcp", decode_rcp}, {"sqrt", decode_sqrt}};

}  // namespace
}  // namespace fa::emu
