// Arithmetic on f16, bf16 and pairs of them (PTX ISA 9.7.4 and 9.7.3, half precision). Values are computed as doubles,
// exactly or rounded to odd, and rounded to the format once.
#include <cmath>

#include "exec/format.h"
#include "exec/number.h"
#include "exec/packed.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// Instruction::detail.
enum Modifier : uint16_t {
  flush_subnormal = 1,
  saturate = 2,
  relu = 4,
  keep_nan = 8,
  xor_sign = 16,
  out_of_bounds = 32,  // a product with the NaN that out-of-bounds loads give is 0
};

struct F16 {
  static constexpr Format format = f16_format;
  static double value(uint16_t bits) { return float_from_half(bits); }
};
struct Bf16 {
  static constexpr Format format = bf16_format;
  static double value(uint16_t bits) { return float_from_bfloat(bits); }
};

template <class Kind>
uint16_t flushed(uint16_t detail, uint16_t bits) {
  constexpr uint16_t exponent = Kind::format.infinity;
  return (detail & flush_subnormal) && (bits & exponent) == 0 ? static_cast<uint16_t>(bits & 0x8000) : bits;
}

template <class Kind>
uint16_t rounded(uint16_t detail, double result) {
  uint16_t bits = static_cast<uint16_t>(encode<Kind::format, Round::nearest, false>(result));
  constexpr uint16_t one = Kind::format.bias << Kind::format.mantissa_bits;
  bool number = result == result;
  if (detail & saturate) bits = !(result > 0) ? uint16_t{0} : (result < 1 ? bits : one);
  if (detail & relu) bits = number && !(result > 0) ? uint16_t{0} : bits;
  return flushed<Kind>(detail, bits);
}

/// f: of doubles, to the exact result, which is rounded.
template <class Kind, class F>
struct Arithmetic {
  template <class... Bits>
  uint16_t operator()(uint16_t detail, Bits... bits) const {
    return rounded<Kind>(detail, F{}(Kind::value(flushed<Kind>(detail, bits))...));
  }
};

struct Sum {
  double operator()(double a, double b) const { return sum_to_odd(a, b); }
};
struct Difference {
  double operator()(double a, double b) const { return sum_to_odd(a, -b); }
};
struct Product {
  double operator()(double a, double b) const { return a * b; }
};
struct Fused {
  double operator()(double a, double b, double c) const { return sum_to_odd(a * b, c); }
};
struct PowerOfTwo {
  double operator()(double a) const { return std::exp2(a); }
};
struct Tangent {
  double operator()(double a) const { return std::tanh(a); }
};

template <class Kind>
struct FusedOrZero {
  uint16_t operator()(uint16_t detail, uint16_t a, uint16_t b, uint16_t c) const {
    if (a == 0xffff || b == 0xffff) return 0;
    return Arithmetic<Kind, Fused>{}(detail, a, b, c);
  }
};

template <class Kind>
struct Negated {
  uint16_t operator()(uint16_t detail, uint16_t a) const { return flushed<Kind>(detail, a ^ 0x8000); }
};
template <class Kind>
struct Magnitude {
  uint16_t operator()(uint16_t detail, uint16_t a) const { return flushed<Kind>(detail, a & 0x7fff); }
};

/// A NaN loses against a number unless .NaN is asked for; -0 is less than +0.
template <class Kind, bool larger>
struct Extreme {
  uint16_t operator()(uint16_t detail, uint16_t a, uint16_t b) const {
    uint16_t sign = detail & xor_sign ? static_cast<uint16_t>((a ^ b) & 0x8000) : uint16_t{0};
    if (detail & xor_sign) a &= 0x7fff, b &= 0x7fff;
    a = flushed<Kind>(detail, a);
    b = flushed<Kind>(detail, b);
    bool a_nan = (a & 0x7fff) > Kind::format.infinity, b_nan = (b & 0x7fff) > Kind::format.infinity;
    if ((a_nan && b_nan) || ((a_nan || b_nan) && (detail & keep_nan))) return Kind::format.nan;
    // As integers in the order of the numbers.
    auto ordered = [](uint16_t bits) { return bits & 0x8000 ? 0x7fff - bits : int{bits}; };
    bool first = larger ? ordered(a) > ordered(b) : ordered(a) < ordered(b);
    uint16_t chosen = a_nan ? b : b_nan || first ? a : b;
    return static_cast<uint16_t>(chosen | sign);
  }
};

uint16_t modifiers_of(const Decoder &d) {
  auto bit = [&](const char *name, Modifier modifier) { return d.has(name) ? modifier : 0; };
  return static_cast<uint16_t>(bit("ftz", flush_subnormal) | bit("sat", saturate) | bit("relu", relu) |
                               bit("NaN", keep_nan) | bit("xorsign", xor_sign) | bit("oob", out_of_bounds));
}

/// Operation<Kind>: over the bits of one value.
template <size_t sources, template <class> class Operation>
bool decode_half(Decoder &d) {
  if (d.opcode().types.size() != 1) return false;
  d.out().detail = modifiers_of(d);
  switch (d.type()) {
    case Type::f16:
      return same_type_operands(d, packed<uint16_t, uint16_t, Operation<F16>, sources>, sources, Type::f16);
    case Type::f16x2:
      return same_type_operands(d, packed<uint32_t, uint16_t, Operation<F16>, sources>, sources, Type::f16x2);
    case Type::bf16:
      return same_type_operands(d, packed<uint16_t, uint16_t, Operation<Bf16>, sources>, sources, Type::bf16);
    case Type::bf16x2:
      return same_type_operands(d, packed<uint32_t, uint16_t, Operation<Bf16>, sources>, sources, Type::bf16x2);
    default:
      return false;
  }
}

template <class Kind>
using Add = Arithmetic<Kind, Sum>;
template <class Kind>
using Subtract = Arithmetic<Kind, Difference>;
template <class Kind>
using Multiply = Arithmetic<Kind, Product>;
template <class Kind>
using MultiplyAdd = Arithmetic<Kind, Fused>;
template <class Kind>
using Exp2 = Arithmetic<Kind, PowerOfTwo>;
template <class Kind>
using Tanh = Arithmetic<Kind, Tangent>;
template <class Kind>
using Smaller = Extreme<Kind, false>;
template <class Kind>
using Larger = Extreme<Kind, true>;

bool decode_fma(Decoder &d) {
  return d.has("oob") ? decode_half<3, FusedOrZero>(d) : decode_half<3, MultiplyAdd>(d);
}

const Registration registration{{"add", decode_half<2, Add>},      {"sub", decode_half<2, Subtract>},
                                {"mul", decode_half<2, Multiply>}, {"fma", decode_fma},
                                {"neg", decode_half<1, Negated>},  {"abs", decode_half<1, Magnitude>},
                                {"min", decode_half<2, Smaller>},  {"max", decode_half<2, Larger>},
                                {"ex2", decode_half<1, Exp2>},     {"tanh", decode_half<1, Tanh>}};

}  // namespace
}  // namespace fa::emu
