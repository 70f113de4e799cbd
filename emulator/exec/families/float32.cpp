// f32 and f64 arithmetic to nearest (PTX ISA 9.7.3), and the approximate functions. Other roundings: directed.cpp.
#include <bit>
#include <cmath>
#include <limits>

#include "exec/dispatch.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// The modifiers of an f32 operation.
template <bool ftz, bool sat, class F>
struct Rounded {
  template <class... T>
  float operator()(T... values) const {
    float result = F{}((ftz ? flush(values) : values)...);
    if (ftz) result = flush(result);
    // Not a number saturates to 0.
    if (sat) result = result > 0.f ? (result < 1.f ? result : 1.f) : 0.f;
    return canonical(result);
  }
};

template <int sources, class F>
Handler f32(const Decoder &d, F) {
  bool ftz = d.has("ftz"), sat = d.has("sat");
  if (ftz && sat) return same_type<float, sources>(Rounded<true, true, F>{});
  if (ftz) return same_type<float, sources>(Rounded<true, false, F>{});
  if (sat) return same_type<float, sources>(Rounded<false, true, F>{});
  return same_type<float, sources>(Rounded<false, false, F>{});
}

bool rounds_to_nearest(const Decoder &d) {
  return !d.has("rz") && !d.has("rm") && !d.has("rp");
}

template <int sources, class F>
bool arithmetic(Decoder &d, F f) {
  if (!rounds_to_nearest(d) || d.opcode().types.size() != 1) return false;
  if (d.type() == Type::f32) return same_type_operands(d, f32<sources>(d, f), sources, Type::f32);
  if (d.type() == Type::f64) return same_type_operands(d, same_type<double, sources>(f), sources, Type::f64);
  return false;
}

bool decode_add(Decoder &d) {
  return arithmetic<2>(d, [](auto a, auto b) { return a + b; });
}
bool decode_sub(Decoder &d) {
  return arithmetic<2>(d, [](auto a, auto b) { return a - b; });
}
bool decode_mul(Decoder &d) {
  return arithmetic<2>(d, [](auto a, auto b) { return a * b; });
}
bool decode_div(Decoder &d) {
  return arithmetic<2>(d, [](auto a, auto b) { return a / b; });
}
bool decode_sqrt(Decoder &d) {
  return arithmetic<1>(d, [](auto a) { return std::sqrt(a); });
}

constexpr auto fused = [](auto a, auto b, auto c) { return std::fma(a, b, c); };
bool decode_fma(Decoder &d) {
  return arithmetic<3>(d, fused);
}

/// A NaN loses against a number, unless .NaN is asked for; -0 is less than +0.
template <bool keep_nan>
constexpr auto smaller = [](auto a, auto b) {
  if (a != a) return keep_nan ? std::numeric_limits<decltype(a)>::quiet_NaN() : b;
  if (b != b) return keep_nan ? std::numeric_limits<decltype(a)>::quiet_NaN() : a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
};
template <bool keep_nan>
constexpr auto larger = [](auto a, auto b) {
  if (a != a) return keep_nan ? std::numeric_limits<decltype(a)>::quiet_NaN() : b;
  if (b != b) return keep_nan ? std::numeric_limits<decltype(a)>::quiet_NaN() : a;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
};

/// .xorsign.abs: of the magnitudes, with the product's sign.
template <class F>
constexpr auto signed_by_both = [](auto a, auto b) {
  auto chosen = F{}(std::fabs(a), std::fabs(b));
  return std::signbit(a) != std::signbit(b) ? -chosen : chosen;
};

/// pick: of two values; of three, the pick of the first pick and the third.
template <class F>
bool extreme(Decoder &d, F pick) {
  if (d.has("xorsign")) return arithmetic<2>(d, signed_by_both<F>);
  if (d.count() == 4) return arithmetic<3>(d, [](auto a, auto b, auto c) { return F{}(F{}(a, b), c); });
  return arithmetic<2>(d, pick);
}

bool decode_min(Decoder &d) {
  return d.has("NaN") ? extreme(d, smaller<true>) : extreme(d, smaller<false>);
}
bool decode_max(Decoder &d) {
  return d.has("NaN") ? extreme(d, larger<true>) : extreme(d, larger<false>);
}

/// Signs are bits, of NaN too.
template <class F>
bool decode_sign(Decoder &d, F f) {
  if (d.type() == Type::f64) return same_type_operands(d, same_type<double, 1>(f), 1, Type::f64);
  if (d.type() != Type::f32) return false;
  Handler handler =
      d.has("ftz") ? elementwise<float, float>([](float a) { return F{}(flush(a)); }) : elementwise<float, float>(f);
  return same_type_operands(d, handler, 1, Type::f32);
}
bool decode_abs(Decoder &d) {
  return decode_sign(d, [](auto a) { return std::fabs(a); });
}
bool decode_neg(Decoder &d) {
  return decode_sign(d, [](auto a) { return -a; });
}
/// copysign d, a, b: the sign of a, the magnitude of b.
bool decode_copysign(Decoder &d) {
  auto with_sign = [](auto a, auto b) { return std::copysign(b, a); };
  if (d.type() == Type::f64) return same_type_operands(d, same_type<double, 2>(with_sign), 2, Type::f64);
  return d.type() == Type::f32 && same_type_operands(d, same_type<float, 2>(with_sign), 2, Type::f32);
}

/// Approximate functions are computed better than the hardware does, within the error that the ISA documents. Of f64
/// they give the upper 32 bits only.
template <class F>
bool decode_inverse(Decoder &d, F f) {
  if (d.type() != Type::f64 || !d.has("approx")) return arithmetic<1>(d, f);
  Handler upper = elementwise<double, double>([](double a) {
    bool subnormal = std::fabs(a) < 0x1p-1022;
    double result = F{}(subnormal ? std::copysign(0.0, a) : a);
    if (result != result || std::isinf(result)) return result;
    uint64_t bits = std::bit_cast<uint64_t>(std::fabs(result) < 0x1p-1022 ? std::copysign(0.0, result) : result);
    return std::bit_cast<double>(bits >> 32 << 32);
  });
  return same_type_operands(d, upper, 1, Type::f64);
}

bool decode_rcp(Decoder &d) {
  return decode_inverse(d, [](auto a) { return static_cast<decltype(a)>(1) / a; });
}
/// -0 gives -infinity.
bool decode_rsqrt(Decoder &d) {
  return decode_inverse(d, [](auto a) { return static_cast<decltype(a)>(1.0 / std::sqrt(static_cast<double>(a))); });
}

/// 2^x: the whole part goes to the exponent, a polynomial (interpolation at Chebyshev's points, relative error
/// 2^-28 before rounding) does the fraction. Branch-free, so that
/// a warp is a few vector instructions.
[[gnu::always_inline]] inline float exp2_of(float x) {
  float clamped = x < -151.f ? -151.f : (x > 129.f ? 129.f : x);
  float whole = (clamped + 0x1.8p23f) - 0x1.8p23f;
  float f = clamped - whole;
  float p = 0x1.444p-13f;
  p = p * f + 0x1.5f48cp-10f;
  p = p * f + 0x1.3b2a1cp-7f;
  p = p * f + 0x1.c6aeccp-5f;
  p = p * f + 0x1.ebfbep-3f;
  p = p * f + 0x1.62e43p-1f;
  p = p * f + 1.f;
  // Two steps, so that subnormal results and the largest ones are right.
  int32_t exponent = static_cast<int32_t>(whole), half = exponent / 2;
  float scale_a = std::bit_cast<float>((half + 127) << 23),
        scale_b = std::bit_cast<float>((exponent - half + 127) << 23);
  float result = p * scale_a * scale_b;
  return x != x ? x : result;
}

bool decode_ex2(Decoder &d) {
  if (d.type() != Type::f32) return false;
  return same_type_operands(d, f32<1>(d, [](float a) { return exp2_of(a); }), 1, Type::f32);
}

bool decode_lg2(Decoder &d) {
  if (d.type() != Type::f32) return false;
  return same_type_operands(d, f32<1>(d, [](float a) { return std::log2(a); }), 1, Type::f32);
}
bool decode_sin(Decoder &d) {
  return d.type() == Type::f32 && same_type_operands(d, f32<1>(d, [](float a) { return std::sin(a); }), 1, Type::f32);
}
bool decode_cos(Decoder &d) {
  return d.type() == Type::f32 && same_type_operands(d, f32<1>(d, [](float a) { return std::cos(a); }), 1, Type::f32);
}
bool decode_tanh(Decoder &d) {
  return d.type() == Type::f32 && same_type_operands(d, f32<1>(d, [](float a) { return std::tanh(a); }), 1, Type::f32);
}

const Registration registration{
    {"add", decode_add},   {"sub", decode_sub},     {"mul", decode_mul},  {"div", decode_div},
    {"sqrt", decode_sqrt}, {"fma", decode_fma},     {"mad", decode_fma},  {"min", decode_min},
    {"max", decode_max},   {"abs", decode_abs},     {"neg", decode_neg},  {"copysign", decode_copysign},
    {"rcp", decode_rcp},   {"rsqrt", decode_rsqrt}, {"ex2", decode_ex2},  {"lg2", decode_lg2},
    {"sin", decode_sin},   {"cos", decode_cos},     {"tanh", decode_tanh}};

}  // namespace
}  // namespace fa::emu
