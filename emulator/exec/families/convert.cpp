// cvt between integers, f16, bf16, f32 and f64 (PTX ISA 9.7.9): the common forms, as vector code.
#include "exec/families/convert.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "exec/dispatch.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// The layout of a conversion's operands in registers: Instruction::detail.
enum Layout : uint16_t { width2 = 2, width4 = 4, width8 = 8, width_bits = 15, flush_source = 16, step_shift = 8 };

/// Results sign- or zero-extended into registers that may be wider than their type.
template <class D>
[[gnu::noinline]] void store_extended(Warp &warp, const Instruction &instruction, const D *computed, uint32_t mask) {
  auto store = [&]<class R>(R) {
    alignas(64) R extended[lanes];
    for (uint32_t lane = 0; lane < lanes; lane++) extended[lane] = static_cast<R>(computed[lane]);
    store_lanes(warp.row<R>(instruction.dst), extended, mask);
  };
  constexpr bool sign = std::is_signed_v<D>;
  switch (instruction.detail & width_bits) {
    case width2:
      return store(std::conditional_t<sign, int16_t, uint16_t>{});
    case width4:
      return store(std::conditional_t<sign, int32_t, uint32_t>{});
    default:
      return store(std::conditional_t<sign, int64_t, uint64_t>{});
  }
}

/// Sources that may be in wider registers than their type needs.
template <class T>
[[gnu::noinline]] const T *gather(Warp &warp, const Instruction &instruction, T *copy) {
  const T *row = warp.row<T>(instruction.a);
  uint32_t step = instruction.detail >> step_shift;
  for (uint32_t lane = 0; lane < lanes; lane++) copy[lane] = row[lane * step];
  if constexpr (std::is_same_v<T, float>)
    if (instruction.detail & flush_source)
      for (uint32_t lane = 0; lane < lanes; lane++) copy[lane] = flush(copy[lane]);
  return copy;
}

template <class D, class T, class F>
void convert(Warp &warp, const Instruction &instruction, uint32_t mask) {
  alignas(64) T copy[lanes];
  alignas(64) D computed[lanes];
  bool in_place = (instruction.detail >> step_shift) == 1 && !(instruction.detail & flush_source);
  const T *a = in_place ? warp.row<T>(instruction.a) : gather(warp, instruction, copy);
  for (uint32_t lane = 0; lane < lanes; lane++) computed[lane] = static_cast<D>(F{}(a[lane]));
  if (std::is_floating_point_v<D> || (instruction.detail & width_bits) == sizeof(D))
    store_lanes(warp.row<D>(instruction.dst), computed, mask);
  else if constexpr (!std::is_floating_point_v<D>)
    store_extended(warp, instruction, computed, mask);
}

/// The handler for a result of type D in a register of this many bytes.
template <class D, class T, class F>
Handler into_register(uint32_t width, F) {
  bool fits = std::is_floating_point_v<D> ? width == sizeof(D) : width >= sizeof(D) && width <= 8;
  return fits ? &convert<D, T, F> : nullptr;
}

template <class D, class T>
struct IntegerToInteger {
  D operator()(T a) const { return static_cast<D>(a); }
};

template <class D, class T>
struct Saturating {
  D operator()(T a) const {
    using Limits = std::numeric_limits<D>;
    if (std::cmp_less(a, Limits::min())) return Limits::min();
    if (std::cmp_greater(a, Limits::max())) return Limits::max();
    return static_cast<D>(a);
  }
};

enum class Round : uint8_t { nearest, zero, down, up };

template <Round round, class T>
T rounded(T a) {
  if constexpr (round == Round::nearest) return std::nearbyint(a);
  if constexpr (round == Round::zero) return std::trunc(a);
  if constexpr (round == Round::down) return std::floor(a);
  return std::ceil(a);
}

/// Out of range saturates; NaN becomes 0, or the highest bit alone from f64 or to 64 bits.
template <class D, Round round, class T>
struct FloatToInteger {
  D operator()(T a) const {
    using Limits = std::numeric_limits<D>;
    if (a != a) return sizeof(D) == 8 || sizeof(T) == 8 ? static_cast<D>(uint64_t{1} << (sizeof(D) * 8 - 1)) : D{0};
    T whole = rounded<round>(a);
    constexpr T above = static_cast<T>(uint64_t{1} << (sizeof(D) * 8 - 1)) * (std::is_signed_v<D> ? 1 : 2);
    if (whole >= above) return Limits::max();
    if (whole < static_cast<T>(Limits::min())) return Limits::min();
    return static_cast<D>(whole);
  }
};

template <class D, class T, bool sat>
struct ToFloat {
  D operator()(T a) const {
    D value = static_cast<D>(a);
    if constexpr (sat) value = value > 0 ? (value < 1 ? value : D{1}) : D{0};
    return value;
  }
};

template <class D, class T>
Handler integer_result(const Decoder &d, uint32_t width) {
  if (d.has("sat")) return into_register<D, T>(width, Saturating<D, T>{});
  return into_register<D, T>(width, IntegerToInteger<D, T>{});
}

template <class D, class T>
Handler rounded_integer(const Decoder &d, uint32_t width) {
  auto make = [&]<Round round>(std::integral_constant<Round, round>) {
    return into_register<D, T>(width, FloatToInteger<D, round, T>{});
  };
  if (d.has("rni")) return make(std::integral_constant<Round, Round::nearest>{});
  if (d.has("rmi")) return make(std::integral_constant<Round, Round::down>{});
  if (d.has("rpi")) return make(std::integral_constant<Round, Round::up>{});
  if (d.has("rzi")) return make(std::integral_constant<Round, Round::zero>{});
  return nullptr;
}

template <class T>
Handler to_integer(const Decoder &d, Type to, uint32_t width) {
  auto pick = [&]<class D>(D) {
    if constexpr (std::is_floating_point_v<T>)
      return rounded_integer<D, T>(d, width);
    else
      return integer_result<D, T>(d, width);
  };
  switch (to) {
    case Type::u8:
    case Type::b8:
      return pick(uint8_t{});
    case Type::s8:
      return pick(int8_t{});
    case Type::u16:
    case Type::b16:
      return pick(uint16_t{});
    case Type::s16:
      return pick(int16_t{});
    case Type::u32:
    case Type::b32:
      return pick(uint32_t{});
    case Type::s32:
      return pick(int32_t{});
    case Type::u64:
    case Type::b64:
      return pick(uint64_t{});
    case Type::s64:
      return pick(int64_t{});
    default:
      return nullptr;
  }
}

struct HalfOf {
  template <class T>
  uint16_t operator()(T a) const {
    return half_from_float(static_cast<float>(a));
  }
};
struct BfloatOf {
  template <class T>
  uint16_t operator()(T a) const {
    return bfloat_from_float(static_cast<float>(a));
  }
};
struct FloatOfHalf {
  float operator()(uint16_t a) const { return float_from_half(a); }
};
struct FloatOfBfloat {
  float operator()(uint16_t a) const { return float_from_bfloat(a); }
};

template <class T>
Handler from(const Decoder &d, Type to, uint32_t width) {
  bool nearest = !d.has("rz") && !d.has("rm") && !d.has("rp") && !d.has("rs");
  bool plain = nearest && !d.has("sat") && !d.has("relu") && !d.has("satfinite");
  bool whole = d.has("rni") || d.has("rzi") || d.has("rmi") || d.has("rpi");
  switch (to) {
    case Type::f32:
      if (!nearest || whole || (d.has("ftz") && !std::is_same_v<T, float>)) return nullptr;
      return d.has("sat") ? into_register<float, T>(width, ToFloat<float, T, true>{})
                          : into_register<float, T>(width, ToFloat<float, T, false>{});
    case Type::f64:
      if (!nearest || whole || d.has("sat")) return nullptr;
      return into_register<double, T>(width, ToFloat<double, T, false>{});
    case Type::f16:
      return plain && std::is_same_v<T, float> ? into_register<uint16_t, T>(width, HalfOf{}) : nullptr;
    case Type::bf16:
      return plain && std::is_same_v<T, float> ? into_register<uint16_t, T>(width, BfloatOf{}) : nullptr;
    default:
      return to_integer<T>(d, to, width);
  }
}

Handler conversion(const Decoder &d, Type to, Type source, uint32_t width) {
  switch (source) {
    case Type::u8:
    case Type::b8:
      return from<uint8_t>(d, to, width);
    case Type::s8:
      return from<int8_t>(d, to, width);
    case Type::u16:
    case Type::b16:
      return from<uint16_t>(d, to, width);
    case Type::s16:
      return from<int16_t>(d, to, width);
    case Type::u32:
    case Type::b32:
      return from<uint32_t>(d, to, width);
    case Type::s32:
      return from<int32_t>(d, to, width);
    case Type::u64:
    case Type::b64:
      return from<uint64_t>(d, to, width);
    case Type::s64:
      return from<int64_t>(d, to, width);
    case Type::f32:
      return from<float>(d, to, width);
    case Type::f64:
      return from<double>(d, to, width);
    case Type::f16:
      return to == Type::f32 && !d.has("sat") ? into_register<float, uint16_t>(width, FloatOfHalf{}) : nullptr;
    case Type::bf16:
      return to == Type::f32 ? into_register<float, uint16_t>(width, FloatOfBfloat{}) : nullptr;
    default:
      return nullptr;
  }
}

bool is_number(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::tf32 || type == Type::f64;
}

bool decode_scalar(Decoder &d) {
  if (d.opcode().types.size() != 2 || d.count() != 2) return false;
  Type to = d.type(0), source = d.type(1);
  bool numbers = ptx::bytes_of(source) <= 8 && (ptx::is_integer(source) || is_number(source));
  if (!numbers || !(ptx::is_integer(to) || is_number(to))) return false;
  uint32_t to_width = 0, source_width = 0;
  Slot a = d.wide_source(d.operand(1), source, source_width);
  Slot dst = d.wide_destination(d.operand(0), to, to_width);
  d.out().a = a;
  d.out().dst = dst;
  Handler handler = conversion(d, to, source, to_width);
  if (!handler) {
    handler = general_conversion(d, to_width, source_width);
    return handler && d.run(handler);
  }
  if (source_width < ptx::bytes_of(source)) return false;
  uint32_t step = source_width / ptx::bytes_of(source);
  d.out().detail = static_cast<uint16_t>(to_width | (d.has("ftz") ? flush_source : 0) | step << step_shift);
  return d.run(handler);
}

/// cvt.rn.f16x2.f32 d, a, b: a above, b below.
struct PackHalves {
  uint32_t operator()(float a, float b) const { return uint32_t{half_from_float(a)} << 16 | half_from_float(b); }
};
struct PackBfloats {
  uint32_t operator()(float a, float b) const { return uint32_t{bfloat_from_float(a)} << 16 | bfloat_from_float(b); }
};

bool decode_pair(Decoder &d) {
  Type to = d.type(0);
  if (d.type(1) != Type::f32 || (to != Type::f16x2 && to != Type::bf16x2) || d.count() != 3) return false;
  if (!d.has("rn") || d.has("relu") || d.has("satfinite")) return false;
  d.out().a = d.source(1, Type::f32);
  d.out().b = d.source(2, Type::f32);
  d.out().dst = d.destination(0, Type::b32);
  return d.run(to == Type::f16x2 ? elementwise<uint32_t, float, float>(PackHalves{})
                                 : elementwise<uint32_t, float, float>(PackBfloats{}));
}

const Registration registration{{"cvt", decode_scalar}, {"cvt", decode_pair}};

}  // namespace
}  // namespace fa::emu
