// f32, f32x2 and f64 arithmetic rounded toward zero, down or up: add sub mul fma mad div rcp sqrt with .rz .rm .rp (PTX
// ISA 9.7.3). The host's own rounding mode does it; the values pass through volatile variables, so that the compiler
// cannot move an operation out of the lines where that mode is set.
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

bool decode_add(Decoder &d) {
  return decode_directed<2>(d, [](auto a, auto b) { return a + b; });
}
bool decode_sub(Decoder &d) {
  return decode_directed<2>(d, [](auto a, auto b) { return a - b; });
}
bool decode_mul(Decoder &d) {
  return decode_directed<2>(d, [](auto a, auto b) { return a * b; });
}
bool decode_fma(Decoder &d) {
  return decode_directed<3>(d, [](auto a, auto b, auto c) { return std::fma(a, b, c); });
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
