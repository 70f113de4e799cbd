// Integer arithmetic: add sub mul mad div rem abs neg min max and their wide and high forms.
#include <limits>
#include <type_traits>

#include "exec/dispatch.h"

namespace fa::emu {
namespace {

using ptx::Type;

template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;
/// Twice as wide as T, also for 64 bits.
template <class T>
using Double = std::conditional_t<sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, int128, uint128>, Wide<T>>;

constexpr auto high_product = [](auto a, auto b) {
  using T = decltype(a);
  return static_cast<T>((static_cast<Double<T>>(a) * static_cast<Double<T>>(b)) >> (sizeof(T) * 8));
};

/// Wraps around, as unsigned numbers do.
template <class T>
constexpr T product(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

bool decode_add(Decoder &d) {
  if (d.has("cc") || d.has("sat")) return false;
  Handler handler = by_width<2>(d.type(), [](auto a, auto b) { return static_cast<decltype(a)>(a + b); });
  return same_type_operands(d, handler, 2, d.type());
}

bool decode_sub(Decoder &d) {
  if (d.has("cc") || d.has("sat")) return false;
  Handler handler = by_width<2>(d.type(), [](auto a, auto b) { return static_cast<decltype(a)>(a - b); });
  return same_type_operands(d, handler, 2, d.type());
}

template <class T>
Handler wide_product() {
  return elementwise<Wide<T>, T, T>([](T a, T b) { return product<Wide<T>>(a, b); });
}

template <class T>
Handler wide_mad() {
  return elementwise<Wide<T>, T, T, Wide<T>>([](T a, T b, Wide<T> c) {
    return static_cast<Wide<T>>(static_cast<uint64_t>(product<Wide<T>>(a, b)) + static_cast<uint64_t>(c));
  });
}

Type wide_type(Type type) {
  switch (type) {
    case Type::u16:
    case Type::s16:
      return Type::b32;
    case Type::u32:
    case Type::s32:
      return Type::b64;
    default:
      return Type::none;
  }
}

bool decode_wide(Decoder &d, bool mad) {
  Type type = d.type(), wide = wide_type(type);
  if (wide == Type::none) return false;
  d.expect_operands(mad ? 4 : 3, mad ? 4 : 3);
  d.out().a = d.source(1, type);
  d.out().b = d.source(2, type);
  if (mad) d.out().c = d.source(3, wide);
  d.out().dst = d.destination(0, wide);
  switch (type) {
    case Type::u16:
      return d.run(mad ? wide_mad<uint16_t>() : wide_product<uint16_t>());
    case Type::s16:
      return d.run(mad ? wide_mad<int16_t>() : wide_product<int16_t>());
    case Type::u32:
      return d.run(mad ? wide_mad<uint32_t>() : wide_product<uint32_t>());
    default:
      return d.run(mad ? wide_mad<int32_t>() : wide_product<int32_t>());
  }
}

bool decode_mul(Decoder &d) {
  if (d.has("wide")) return decode_wide(d, false);
  if (d.has("hi")) return same_type_operands(d, by_sign<2>(d.type(), high_product), 2, d.type());
  if (!d.has("lo")) return false;
  Handler handler = by_width<2>(d.type(), [](auto a, auto b) { return product(a, b); });
  return same_type_operands(d, handler, 2, d.type());
}

bool decode_mad(Decoder &d) {
  if (d.has("cc")) return false;
  if (d.has("wide")) return decode_wide(d, true);
  if (d.has("hi")) {
    Handler handler = by_sign<3>(d.type(), [](auto a, auto b, auto c) {
      return static_cast<decltype(a)>(static_cast<uint64_t>(high_product(a, b)) + static_cast<uint64_t>(c));
    });
    return !d.has("sat") && same_type_operands(d, handler, 3, d.type());
  }
  if (!d.has("lo")) return false;
  Handler handler =
      by_width<3>(d.type(), [](auto a, auto b, auto c) { return static_cast<decltype(a)>(product(a, b) + c); });
  return same_type_operands(d, handler, 3, d.type());
}

/// Division by zero gives all ones, as the hardware's instruction sequence does; the remainder is then the dividend.
constexpr auto quotient = [](auto a, auto b) {
  using T = decltype(a);
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(0 - static_cast<uint64_t>(a));
  return static_cast<T>(a / b);
};

constexpr auto remainder_of = [](auto a, auto b) {
  using T = decltype(a);
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return T{0};
  return static_cast<T>(a % b);
};

bool decode_div(Decoder &d) {
  return same_type_operands(d, by_sign<2>(d.type(), quotient), 2, d.type());
}
bool decode_rem(Decoder &d) {
  return same_type_operands(d, by_sign<2>(d.type(), remainder_of), 2, d.type());
}

bool decode_min(Decoder &d) {
  if (d.has("relu")) return false;
  return same_type_operands(d, by_sign<2>(d.type(), [](auto a, auto b) { return b < a ? b : a; }), 2, d.type());
}

bool decode_max(Decoder &d) {
  if (d.has("relu")) return false;
  return same_type_operands(d, by_sign<2>(d.type(), [](auto a, auto b) { return a < b ? b : a; }), 2, d.type());
}

bool decode_neg(Decoder &d) {
  Handler handler = by_width<1>(d.type(), [](auto a) { return static_cast<decltype(a)>(0 - a); });
  return same_type_operands(d, handler, 1, d.type());
}

bool decode_abs(Decoder &d) {
  if (!ptx::is_signed(d.type())) return false;
  Handler handler = by_sign<1>(d.type(), [](auto a) {
    return static_cast<decltype(a)>(a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a));
  });
  return same_type_operands(d, handler, 1, d.type());
}

const Registration registration{{"add", decode_add}, {"sub", decode_sub}, {"mul", decode_mul}, {"mad", decode_mad},
                                {"div", decode_div}, {"rem", decode_rem}, {"min", decode_min}, {"max", decode_max},
                                {"neg", decode_neg}, {"abs", decode_abs}};

}  // namespace
}  // namespace fa::emu
