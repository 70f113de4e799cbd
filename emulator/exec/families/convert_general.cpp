// cvt with any rounding, saturation and relu, and from or to f16, bf16, tf32 (PTX ISA 9.7.9, cvt): every source becomes
// a double (of 64-bit integers rounded to odd), and the result is rounded from it once.
#include <cmath>
#include <limits>

#include "exec/dispatch.h"
#include "exec/families/convert.h"
#include "exec/format.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// Instruction::target.
enum Modifier : uint32_t {
  flush_subnormal = 1,
  saturate = 2,
  relu = 4,
  rounds_to_whole = 8,
  whole_shift = 4,  // two bits: Round of .rni .rzi .rmi .rpi
  wide_shift = 8,   // the result register's bytes
};

/// Not exact for 64 bits: the lowest bit of the double then says that something is missing.
template <class T>
double integer_to_odd(T value) {
  double nearest = static_cast<double>(value);
  if constexpr (sizeof(T) < 8) return nearest;
  bool negative = value < 0;
  uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int shift = magnitude >> 53 ? 11 - std::countl_zero(magnitude) : 0;
  uint64_t kept = magnitude >> shift;
  bool lost = kept << shift != magnitude;
  double result = std::ldexp(static_cast<double>(kept | (lost ? 1 : 0)), shift);
  return negative ? -result : result;
}

template <class T, class F>
void read_as(const Warp &warp, Slot slot, uint32_t step, double *out, F value) {
  const T *row = warp.row<T>(slot);
  for (uint32_t lane = 0; lane < lanes; lane++) out[lane] = value(row[lane * step]);
}

/// detail: the source's Type, and from bit 8 on how many of it make a register.
void read_source(const Warp &warp, const Instruction &instruction, double *out) {
  uint32_t step = instruction.detail >> 8;
  auto integer = [](auto a) { return integer_to_odd(a); };
  switch (static_cast<Type>(instruction.detail & 255)) {
    case Type::u8:
      return read_as<uint8_t>(warp, instruction.a, step, out, integer);
    case Type::s8:
      return read_as<int8_t>(warp, instruction.a, step, out, integer);
    case Type::u16:
      return read_as<uint16_t>(warp, instruction.a, step, out, integer);
    case Type::s16:
      return read_as<int16_t>(warp, instruction.a, step, out, integer);
    case Type::u32:
      return read_as<uint32_t>(warp, instruction.a, step, out, integer);
    case Type::s32:
      return read_as<int32_t>(warp, instruction.a, step, out, integer);
    case Type::u64:
      return read_as<uint64_t>(warp, instruction.a, step, out, integer);
    case Type::s64:
      return read_as<int64_t>(warp, instruction.a, step, out, integer);
    case Type::f16:
      return read_as<uint16_t>(warp, instruction.a, step, out, [](uint16_t a) -> double { return float_from_half(a); });
    case Type::bf16:
      return read_as<uint16_t>(warp, instruction.a, step, out,
                               [](uint16_t a) -> double { return float_from_bfloat(a); });
    case Type::f32:
      if (instruction.target & flush_subnormal)
        return read_as<float>(warp, instruction.a, step, out, [](float a) -> double { return flush(a); });
      return read_as<float>(warp, instruction.a, step, out, [](float a) -> double { return a; });
    default:
      return read_as<double>(warp, instruction.a, step, out, [](double a) { return a; });
  }
}

double whole(Round round, double value) {
  switch (round) {
    case Round::nearest:
      return std::nearbyint(value);
    case Round::zero:
      return std::trunc(value);
    case Round::down:
      return std::floor(value);
    default:
      return std::ceil(value);
  }
}

/// The value before it is rounded to its format.
double prepared(uint32_t modifiers, double value) {
  if (modifiers & rounds_to_whole) value = whole(static_cast<Round>(modifiers >> whole_shift & 3), value);
  if (modifiers & saturate) value = value > 0 ? (value < 1 ? value : 1) : 0;
  if (modifiers & relu) value = value == value && !(value > 0) ? 0 : value;
  return value;
}

struct ToTf32 {
  static uint32_t bits(uint32_t code) { return code == tf32_format.nan ? 0x7fffffffu : code << 13; }
};
struct ToBits {
  static uint32_t bits(uint32_t code) { return code; }
};

template <class R, Format format, Round round, bool finite, class Shape>
void to_format(Warp &warp, const Instruction &instruction, uint32_t mask) {
  double source[lanes];
  read_source(warp, instruction, source);
  R computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint32_t bits = Shape::bits(encode<format, round, finite>(prepared(instruction.target, source[lane])));
    if (sizeof(R) == 4 && (instruction.target & flush_subnormal) && (bits & format.infinity) == 0) bits &= format.sign;
    computed[lane] = static_cast<R>(bits);
  }
  store_lanes(warp.row<R>(instruction.dst), computed, mask);
}

void to_double(Warp &warp, const Instruction &instruction, uint32_t mask) {
  double source[lanes], computed[lanes];
  read_source(warp, instruction, source);
  for (uint32_t lane = 0; lane < lanes; lane++) computed[lane] = prepared(instruction.target, source[lane]);
  store_lanes(warp.row<double>(instruction.dst), computed, mask);
}

template <class D>
void to_integer(Warp &warp, const Instruction &instruction, uint32_t mask) {
  using Limits = std::numeric_limits<D>;
  double source[lanes];
  read_source(warp, instruction, source);
  D computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    double value = prepared(instruction.target & ~uint32_t{saturate}, source[lane]);
    constexpr double above = static_cast<double>(uint64_t{1} << (sizeof(D) * 8 - 1)) * (std::is_signed_v<D> ? 1 : 2);
    if (value != value)  // only 64-bit results show it
      computed[lane] = sizeof(D) == 8 ? static_cast<D>(uint64_t{1} << 63) : D{0};
    else if (value >= above)
      computed[lane] = Limits::max();
    else if (value < static_cast<double>(Limits::min()))
      computed[lane] = Limits::min();
    else
      computed[lane] = static_cast<D>(value);
  }
  auto store = [&]<class R>(R) {
    R extended[lanes];
    for (uint32_t lane = 0; lane < lanes; lane++) extended[lane] = static_cast<R>(computed[lane]);
    store_lanes(warp.row<R>(instruction.dst), extended, mask);
  };
  constexpr bool sign = std::is_signed_v<D>;
  switch (instruction.target >> wide_shift) {
    case 2:
      return store(std::conditional_t<sign, int16_t, uint16_t>{});
    case 4:
      return store(std::conditional_t<sign, int32_t, uint32_t>{});
    default:
      return store(std::conditional_t<sign, int64_t, uint64_t>{});
  }
}

template <class R, Format format, class Shape = ToBits>
Handler format_handler(const Decoder &d) {
  bool finite = d.has("satfinite");
  auto pick = [&]<Round round>() -> Handler {
    return finite ? to_format<R, format, round, true, Shape> : to_format<R, format, round, false, Shape>;
  };
  if (d.has("rna")) return pick.template operator()<Round::away>();
  if (d.has("rz")) return pick.template operator()<Round::zero>();
  if (d.has("rm")) return pick.template operator()<Round::down>();
  if (d.has("rp")) return pick.template operator()<Round::up>();
  return pick.template operator()<Round::nearest>();
}

Handler integer_handler(Type to) {
  switch (to) {
    case Type::u8:
      return to_integer<uint8_t>;
    case Type::s8:
      return to_integer<int8_t>;
    case Type::u16:
      return to_integer<uint16_t>;
    case Type::s16:
      return to_integer<int16_t>;
    case Type::u32:
      return to_integer<uint32_t>;
    case Type::s32:
      return to_integer<int32_t>;
    case Type::u64:
      return to_integer<uint64_t>;
    case Type::s64:
      return to_integer<int64_t>;
    default:
      return nullptr;
  }
}

uint32_t modifiers_of(const Decoder &d) {
  auto bit = [&](const char *name, uint32_t modifier) { return d.has(name) ? modifier : 0; };
  uint32_t result = bit("ftz", flush_subnormal) | bit("sat", saturate) | bit("relu", relu);
  const char *names[] = {"rni", "rzi", "rmi", "rpi"};
  for (uint32_t i = 0; i < 4; i++)
    if (d.has(names[i])) result |= rounds_to_whole | i << whole_shift;
  return result;
}

}  // namespace

Handler general_conversion(Decoder &d, uint32_t to_width, uint32_t source_width) {
  Type to = d.type(0), source = d.type(1);
  bool known = (ptx::is_integer(source) && source > Type::b128) || source == Type::f16 || source == Type::bf16 ||
               source == Type::f32 || source == Type::f64;
  if (!known || d.has("rs") || source_width < ptx::bytes_of(source)) return nullptr;
  d.out().detail = static_cast<uint16_t>(static_cast<uint32_t>(source) | source_width / ptx::bytes_of(source) << 8);
  d.out().target = modifiers_of(d) | to_width << wide_shift;
  bool fits = to_width == ptx::bytes_of(to);
  switch (to) {
    case Type::f16:
      return fits ? format_handler<uint16_t, f16_format>(d) : nullptr;
    case Type::bf16:
      return fits ? format_handler<uint16_t, bf16_format>(d) : nullptr;
    case Type::f32:
      return fits ? format_handler<uint32_t, f32_format>(d) : nullptr;
    case Type::tf32:
      return fits ? format_handler<uint32_t, tf32_format, ToTf32>(d) : nullptr;
    case Type::f64:
      return fits && !d.has("rz") && !d.has("rm") && !d.has("rp") ? to_double : nullptr;
    default:
      return ptx::is_float(source) && to_width >= ptx::bytes_of(to) ? integer_handler(to) : nullptr;
  }
}

}  // namespace fa::emu
