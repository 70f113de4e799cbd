// Integer instructions beyond the plain ones: saturation, 24-bit products, sad, dot products dp4a and dp2a, pairs of
// 16-bit integers, relu (PTX ISA 9.7.1).
#include <algorithm>
#include <limits>

#include "exec/packed.h"

namespace fa::emu {
namespace {

using ptx::Type;

int32_t saturated(int64_t value) {
  using Limits = std::numeric_limits<int32_t>;
  return static_cast<int32_t>(std::clamp<int64_t>(value, Limits::min(), Limits::max()));
}

bool is_saturating(const Decoder &d) {
  return d.has("sat") && d.type() == Type::s32;
}

bool decode_add_sat(Decoder &d) {
  auto add = [](int32_t a, int32_t b) { return saturated(int64_t{a} + b); };
  return is_saturating(d) && same_type_operands(d, same_type<int32_t, 2>(add), 2, Type::s32);
}
bool decode_sub_sat(Decoder &d) {
  auto subtract = [](int32_t a, int32_t b) { return saturated(int64_t{a} - b); };
  return is_saturating(d) && same_type_operands(d, same_type<int32_t, 2>(subtract), 2, Type::s32);
}
bool decode_mad_sat(Decoder &d) {
  auto mad = [](int32_t a, int32_t b, int32_t c) { return saturated((int64_t{a} * b >> 32) + c); };
  return is_saturating(d) && d.has("hi") && same_type_operands(d, same_type<int32_t, 3>(mad), 3, Type::s32);
}

/// The product of the low 24 bits: its bits 0-31 (.lo) or 16-47 (.hi).
template <bool sign, bool high>
uint32_t product24(uint32_t a, uint32_t b) {
  if constexpr (sign) {
    int64_t product = int64_t{static_cast<int32_t>(a << 8) >> 8} * (static_cast<int32_t>(b << 8) >> 8);
    return static_cast<uint32_t>(high ? product >> 16 : product);
  }
  uint64_t product = uint64_t{a & 0xffffff} * (b & 0xffffff);
  return static_cast<uint32_t>(high ? product >> 16 : product);
}

template <bool sign, bool high>
bool decode_24(Decoder &d) {
  if (d.opcode().name == "mul24")
    return same_type_operands(
        d, same_type<uint32_t, 2>([](uint32_t a, uint32_t b) { return product24<sign, high>(a, b); }), 2, d.type());
  if (d.has("sat")) {
    auto mad = [](uint32_t a, uint32_t b, uint32_t c) {
      int64_t product = static_cast<int32_t>(product24<sign, high>(a, b));
      return static_cast<uint32_t>(saturated(product + static_cast<int32_t>(c)));
    };
    return sign && high && same_type_operands(d, same_type<uint32_t, 3>(mad), 3, d.type());
  }
  auto mad = [](uint32_t a, uint32_t b, uint32_t c) { return product24<sign, high>(a, b) + c; };
  return same_type_operands(d, same_type<uint32_t, 3>(mad), 3, d.type());
}

bool decode_product24(Decoder &d) {
  bool sign = d.type() == Type::s32;
  if (!sign && d.type() != Type::u32) return false;
  if (d.has("hi")) return sign ? decode_24<true, true>(d) : decode_24<false, true>(d);
  return sign ? decode_24<true, false>(d) : decode_24<false, false>(d);
}

/// c + |a - b|
bool decode_sad(Decoder &d) {
  Handler handler = by_sign<3>(d.type(), [](auto a, auto b, auto c) {
    uint64_t difference = a < b ? static_cast<uint64_t>(b) - static_cast<uint64_t>(a)
                                : static_cast<uint64_t>(a) - static_cast<uint64_t>(b);
    return static_cast<decltype(a)>(static_cast<uint64_t>(c) + difference);
  });
  return same_type_operands(d, handler, 3, d.type());
}

/// Part number i of this many bits.
int64_t part(uint32_t word, uint32_t i, uint32_t bits, bool sign) {
  uint32_t moved = word << (32 - bits - i * bits);
  return sign ? static_cast<int32_t>(moved) >> (32 - bits) : static_cast<int64_t>(moved >> (32 - bits));
}

/// detail: bit 0 a is signed, bit 1 b is, bit 2 the upper half of b (dp2a.hi).
template <uint32_t parts>
struct DotProduct {
  uint32_t operator()(uint16_t detail, uint32_t a, uint32_t b, uint32_t c) const {
    int64_t sum = c;
    for (uint32_t i = 0; i < parts; i++)
      sum += part(a, i, 32 / parts, detail & 1) * part(b, i + (detail & 4 ? 2 : 0), 8, detail & 2);
    return static_cast<uint32_t>(sum);
  }
};

bool decode_dot(Decoder &d) {
  Type a = d.type(0), b = d.type(1);
  if ((a != Type::u32 && a != Type::s32) || (b != Type::u32 && b != Type::s32)) return false;
  bool bytes = d.opcode().name == "dp4a";
  d.out().detail = static_cast<uint16_t>((a == Type::s32) | (b == Type::s32) << 1 | d.has("hi") << 2);
  return same_type_operands(
      d, bytes ? packed<uint32_t, uint32_t, DotProduct<4>, 3> : packed<uint32_t, uint32_t, DotProduct<2>, 3>, 3,
      Type::b32);
}

/// Pairs of 16-bit integers; detail: relu.
struct PairSum {
  uint16_t operator()(uint16_t, uint16_t a, uint16_t b) const { return static_cast<uint16_t>(a + b); }
};
template <class T, bool larger>
struct Extreme {
  T operator()(uint16_t relu, T a, T b) const {
    T chosen = larger ? std::max(a, b) : std::min(a, b);
    return relu && chosen < 0 ? T{0} : chosen;
  }
};

bool decode_pair_add(Decoder &d) {
  if (d.type() != Type::u16x2 && d.type() != Type::s16x2) return false;
  return same_type_operands(d, packed<uint32_t, uint16_t, PairSum, 2>, 2, d.type());
}

template <bool larger>
bool decode_extreme(Decoder &d) {
  d.out().detail = d.has("relu");
  if (d.type() == Type::u16x2)
    return same_type_operands(d, packed<uint32_t, uint16_t, Extreme<uint16_t, larger>, 2>, 2, d.type());
  if (d.type() == Type::s16x2)
    return same_type_operands(d, packed<uint32_t, int16_t, Extreme<int16_t, larger>, 2>, 2, d.type());
  if (d.type() == Type::s32 && d.has("relu"))
    return same_type_operands(d, packed<uint32_t, int32_t, Extreme<int32_t, larger>, 2>, 2, d.type());
  return false;
}

const Registration registration{{"add", decode_add_sat},        {"sub", decode_sub_sat},      {"mad", decode_mad_sat},
                                {"mul24", decode_product24},    {"mad24", decode_product24},  {"sad", decode_sad},
                                {"dp4a", decode_dot},           {"dp2a", decode_dot},         {"add", decode_pair_add},
                                {"min", decode_extreme<false>}, {"max", decode_extreme<true>}};

}  // namespace
}  // namespace fa::emu
