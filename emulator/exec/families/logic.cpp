// Logic and bits: and or xor not lop3, shifts, bit fields, permutation of bytes.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "exec/dispatch.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// Predicates are masks: one word, flipped where the text says so. detail: bit 0 flips a, bit 1 flips b.
template <class F>
void predicate_binary(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t a = *warp.row<uint32_t>(instruction.a) ^ (instruction.detail & 1 ? all_lanes : 0);
  uint32_t b = *warp.row<uint32_t>(instruction.b) ^ (instruction.detail & 2 ? all_lanes : 0);
  store_predicate(warp.row<uint32_t>(instruction.dst), F{}(a, b), mask);
}

template <class F>
bool decode_binary(Decoder &d, F f) {
  if (d.type() != Type::pred) return same_type_operands(d, by_width<2>(d.type(), f), 2, d.type());
  d.expect_operands(3, 3);
  d.out().a = d.source(1, Type::pred);
  d.out().b = d.source(2, Type::pred);
  d.out().detail = static_cast<uint16_t>(d.operand(1).negated | d.operand(2).negated << 1);
  d.out().dst = d.destination(0, Type::pred);
  return d.run(predicate_binary<F>);
}

bool decode_and(Decoder &d) {
  return decode_binary(d, [](auto a, auto b) { return static_cast<decltype(a)>(a & b); });
}
bool decode_or(Decoder &d) {
  return decode_binary(d, [](auto a, auto b) { return static_cast<decltype(a)>(a | b); });
}
bool decode_xor(Decoder &d) {
  return decode_binary(d, [](auto a, auto b) { return static_cast<decltype(a)>(a ^ b); });
}

void not_predicate(Warp &warp, const Instruction &instruction, uint32_t mask) {
  store_predicate(warp.row<uint32_t>(instruction.dst), ~*warp.row<uint32_t>(instruction.a), mask);
}

bool decode_not(Decoder &d) {
  if (d.type() == Type::pred) return same_type_operands(d, not_predicate, 1, Type::pred);
  return same_type_operands(d, by_width<1>(d.type(), [](auto a) { return static_cast<decltype(a)>(~a); }), 1, d.type());
}

/// imm: the truth table, by bits of a, b, c.
void lop3(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint32_t *a = warp.row<uint32_t>(instruction.a);
  const uint32_t *b = warp.row<uint32_t>(instruction.b);
  const uint32_t *c = warp.row<uint32_t>(instruction.c);
  uint32_t terms[8];
  for (int t = 0; t < 8; t++) terms[t] = instruction.imm >> t & 1 ? all_lanes : 0;
  alignas(64) uint32_t computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint32_t x = a[lane], y = b[lane], z = c[lane];
    uint32_t low = (~y & ((~z & terms[0]) | (z & terms[1]))) | (y & ((~z & terms[2]) | (z & terms[3])));
    uint32_t high = (~y & ((~z & terms[4]) | (z & terms[5]))) | (y & ((~z & terms[6]) | (z & terms[7])));
    computed[lane] = (~x & low) | (x & high);
  }
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
}

bool decode_lop3(Decoder &d) {
  if (d.type() != Type::b32 || d.has("and") || d.has("or")) return false;
  d.expect_operands(5, 5);
  d.out().a = d.source(1, Type::b32);
  d.out().b = d.source(2, Type::b32);
  d.out().c = d.source(3, Type::b32);
  d.out().imm = d.immediate(4);
  d.out().dst = d.destination(0, Type::b32);
  return d.run(lop3);
}

/// Shifts take an amount of 32 bits and clamp it.
template <class F>
bool decode_shift(Decoder &d, F f, bool arithmetic) {
  Type type = d.type();
  if (!ptx::is_integer(type)) return false;
  d.expect_operands(3, 3);
  d.out().a = d.source(1, type);
  d.out().b = d.source(2, Type::u32);
  d.out().dst = d.destination(0, type);
  switch (ptx::bytes_of(type)) {
    case 2:
      return d.run(arithmetic ? elementwise<int16_t, int16_t, uint32_t>(f)
                              : elementwise<uint16_t, uint16_t, uint32_t>(f));
    case 4:
      return d.run(arithmetic ? elementwise<int32_t, int32_t, uint32_t>(f)
                              : elementwise<uint32_t, uint32_t, uint32_t>(f));
    case 8:
      return d.run(arithmetic ? elementwise<int64_t, int64_t, uint32_t>(f)
                              : elementwise<uint64_t, uint64_t, uint32_t>(f));
    default:
      return false;
  }
}

bool decode_shl(Decoder &d) {
  auto shift = [](auto a, uint32_t by) {
    using T = decltype(a);
    return by >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << by);
  };
  return decode_shift(d, shift, false);
}

bool decode_shr(Decoder &d) {
  auto shift = [](auto a, uint32_t by) {
    using T = decltype(a);
    constexpr uint32_t bits = sizeof(T) * 8;
    T beyond = static_cast<T>(std::is_signed_v<T> ? a >> (bits - 1) : 0);
    return by >= bits ? beyond : static_cast<T>(a >> (by & (bits - 1)));
  };
  return decode_shift(d, shift, ptx::is_signed(d.type()));
}

/// Funnel shifts: c:b, 64 bits, of which the upper (l) or lower (r) half is the result.
bool decode_shf(Decoder &d) {
  if (d.type() != Type::b32) return false;
  bool left = d.has("l"), wrap = d.has("wrap");
  auto run = [&](Handler handler) { return same_type_operands(d, handler, 3, Type::b32); };
  if (left && wrap)
    return run(elementwise<uint32_t, uint32_t, uint32_t, uint32_t>([](uint32_t low, uint32_t high, uint32_t by) {
      return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (by & 31) >> 32);
    }));
  if (left)
    return run(elementwise<uint32_t, uint32_t, uint32_t, uint32_t>([](uint32_t low, uint32_t high, uint32_t by) {
      return static_cast<uint32_t>((uint64_t{high} << 32 | low) << std::min(by, 32u) >> 32);
    }));
  if (wrap)
    return run(elementwise<uint32_t, uint32_t, uint32_t, uint32_t>([](uint32_t low, uint32_t high, uint32_t by) {
      return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (by & 31));
    }));
  return run(elementwise<uint32_t, uint32_t, uint32_t, uint32_t>([](uint32_t low, uint32_t high, uint32_t by) {
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> std::min(by, 32u));
  }));
}

bool decode_count(Decoder &d) {
  Type type = d.type();
  if (type != Type::b32 && type != Type::b64) return false;
  d.expect_operands(2, 2);
  d.out().a = d.source(1, type);
  d.out().dst = d.destination(0, Type::b32);
  bool population = d.opcode().name == "popc";
  if (type == Type::b32)
    return d.run(
        population
            ? elementwise<uint32_t, uint32_t>([](uint32_t a) { return static_cast<uint32_t>(std::popcount(a)); })
            : elementwise<uint32_t, uint32_t>([](uint32_t a) { return static_cast<uint32_t>(std::countl_zero(a)); }));
  return d.run(
      population
          ? elementwise<uint32_t, uint64_t>([](uint64_t a) { return static_cast<uint32_t>(std::popcount(a)); })
          : elementwise<uint32_t, uint64_t>([](uint64_t a) { return static_cast<uint32_t>(std::countl_zero(a)); }));
}

bool decode_brev(Decoder &d) {
  auto reverse = [](auto a) {
    using T = decltype(a);
    T result = 0;
    for (size_t bit = 0; bit < sizeof(T) * 8; bit++) result = static_cast<T>(result << 1 | (a >> bit & 1));
    return result;
  };
  return same_type_operands(d, by_width<1>(d.type(), reverse), 1, d.type());
}

/// bfi: the low len bits of a, at position pos of b.
template <class T>
void bit_field_insert(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *a = warp.row<T>(instruction.a), *b = warp.row<T>(instruction.b);
  const uint32_t *position = warp.row<uint32_t>(instruction.c);
  const uint32_t *length = warp.row<uint32_t>(instruction.members);
  constexpr uint32_t bits = sizeof(T) * 8;
  T computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint32_t at = position[lane] & 255, count = length[lane] & 255;
    T field = count >= bits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << count) - 1);
    T moved = at >= bits ? T{0} : static_cast<T>(field << at);
    T value = at >= bits ? T{0} : static_cast<T>(a[lane] << at);
    computed[lane] = static_cast<T>((b[lane] & ~moved) | (value & moved));
  }
  store_lanes(warp.row<T>(instruction.dst), computed, mask);
}

bool decode_bfi(Decoder &d) {
  Type type = d.type();
  if (type != Type::b32 && type != Type::b64) return false;
  d.expect_operands(5, 5);
  d.out().a = d.source(1, type);
  d.out().b = d.source(2, type);
  d.out().c = d.source(3, Type::u32);
  d.out().members = d.source(4, Type::u32);
  d.out().dst = d.destination(0, type);
  return d.run(type == Type::b32 ? bit_field_insert<uint32_t> : bit_field_insert<uint64_t>);
}

template <class T>
T bit_field(T a, uint32_t position, uint32_t length) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t bits = sizeof(T) * 8;
  uint32_t at = position & 255, count = length & 255;
  if (count == 0) return T{0};
  bool negative = std::is_signed_v<T> && (a >> std::min(at + count - 1, bits - 1) & 1);
  U value = at >= bits ? U{0} : static_cast<U>(static_cast<U>(a) >> at);
  U inside = count >= bits ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << count) - 1);
  // Bits beyond the operand are the sign's too.
  U present = at >= bits ? U{0} : static_cast<U>(static_cast<U>(~U{0}) >> at);
  inside &= present;
  return static_cast<T>((value & inside) | (negative ? static_cast<U>(~inside) : U{0}));
}

bool decode_bfe(Decoder &d) {
  Type type = d.type();
  d.expect_operands(4, 4);
  d.out().a = d.source(1, type);
  d.out().b = d.source(2, Type::u32);
  d.out().c = d.source(3, Type::u32);
  d.out().dst = d.destination(0, type);
  auto extract = [](auto a, uint32_t position, uint32_t length) { return bit_field(a, position, length); };
  switch (type) {
    case Type::u32:
      return d.run(elementwise<uint32_t, uint32_t, uint32_t, uint32_t>(extract));
    case Type::s32:
      return d.run(elementwise<int32_t, int32_t, uint32_t, uint32_t>(extract));
    case Type::u64:
      return d.run(elementwise<uint64_t, uint64_t, uint32_t, uint32_t>(extract));
    case Type::s64:
      return d.run(elementwise<int64_t, int64_t, uint32_t, uint32_t>(extract));
    default:
      return false;
  }
}

bool decode_prmt(Decoder &d) {
  if (d.type() != Type::b32 || d.opcode().modifiers.size() != 1) return false;
  auto permute = [](uint32_t a, uint32_t b, uint32_t selectors) {
    uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
      uint32_t selector = selectors >> (4 * i) & 15;
      uint32_t byte = static_cast<uint32_t>(bytes >> ((selector & 7) * 8)) & 255;
      uint32_t sign = byte & 128 ? 255u : 0u;
      result |= (selector & 8 ? sign : byte) << (8 * i);
    }
    return result;
  };
  return same_type_operands(d, elementwise<uint32_t, uint32_t, uint32_t, uint32_t>(permute), 3, Type::b32);
}

const Registration registration{
    {"and", decode_and},   {"or", decode_or},   {"xor", decode_xor}, {"not", decode_not},    {"lop3", decode_lop3},
    {"shl", decode_shl},   {"shr", decode_shr}, {"shf", decode_shf}, {"popc", decode_count}, {"clz", decode_count},
    {"brev", decode_brev}, {"bfi", decode_bfi}, {"bfe", decode_bfe}, {"prmt", decode_prmt}};

}  // namespace
}  // namespace fa::emu
