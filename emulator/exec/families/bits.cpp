// Searching and extracting bits: bfind fns bmsk szext cnot, prmt with modes, lop3 with a predicate (PTX ISA 9.7.1 and
// 9.7.8).
#include <bit>
#include <type_traits>

#include "exec/dispatch.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// The highest bit that is not the sign, or -1.
template <class T>
uint32_t highest_bit(T a) {
  std::make_unsigned_t<T> magnitude = static_cast<std::make_unsigned_t<T>>(a);
  if constexpr (std::is_signed_v<T>)
    if (a < 0) magnitude = ~magnitude;
  return static_cast<uint32_t>(std::bit_width(magnitude)) - 1;
}

template <class T>
Handler find_handler(bool shift_amount) {
  if (!shift_amount) return elementwise<uint32_t, T>([](T a) { return highest_bit(a); });
  return elementwise<uint32_t, T>([](T a) {
    uint32_t found = highest_bit(a);
    return found == UINT32_MAX ? found : static_cast<uint32_t>(sizeof(T) * 8 - 1 - found);
  });
}

bool decode_bfind(Decoder &d) {
  bool amount = d.has("shiftamt");
  Type type = d.type();
  Handler handler = type == Type::u32   ? find_handler<uint32_t>(amount)
                    : type == Type::s32 ? find_handler<int32_t>(amount)
                    : type == Type::u64 ? find_handler<uint64_t>(amount)
                    : type == Type::s64 ? find_handler<int64_t>(amount)
                                        : nullptr;
  if (!handler) return false;
  d.expect_operands(2, 2);
  d.out().a = d.source(1, type);
  d.out().dst = d.destination(0, Type::u32);
  return d.run(handler);
}

/// fns mask, base, offset: the bit that is set number offset, counted from base upwards or downwards.
uint32_t find_set(uint32_t mask, uint32_t base, int32_t offset) {
  int step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
  if (base > 31) return UINT32_MAX;
  if (offset == 0) return mask >> base & 1 ? base : UINT32_MAX;
  for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step)
    if ((mask >> at & 1) && --left == 0) return static_cast<uint32_t>(at);
  return UINT32_MAX;
}

bool decode_fns(Decoder &d) {
  d.expect_operands(4, 4);
  d.out().a = d.source(1, Type::b32);
  d.out().b = d.source(2, Type::b32);
  d.out().c = d.source(3, Type::s32);
  d.out().dst = d.destination(0, Type::b32);
  return d.run(elementwise<uint32_t, uint32_t, uint32_t, int32_t>(
      [](uint32_t mask, uint32_t base, int32_t offset) { return find_set(mask, base, offset); }));
}

/// This many ones from a position on.
uint32_t ones(uint32_t position, uint32_t width) {
  uint32_t field = width >= 32 ? all_lanes : (1u << width) - 1;
  return position >= 32 ? 0 : field << position;
}

bool decode_bmsk(Decoder &d) {
  Handler handler = d.has("wrap") ? elementwise<uint32_t, uint32_t, uint32_t>([](uint32_t position, uint32_t width) {
    return ones(position & 31, width & 31);
  })
                                  : elementwise<uint32_t, uint32_t, uint32_t>(
                                        [](uint32_t position, uint32_t width) { return ones(position, width); });
  return same_type_operands(d, handler, 2, Type::b32);
}

/// szext: the low bits, extended with their sign (s32) or with zeros (u32).
template <bool sign, bool wrap>
uint32_t extended(uint32_t a, uint32_t width) {
  uint32_t bits = wrap ? width & 31 : width;
  if (bits >= 32) return a;
  if (bits == 0) return 0;
  uint32_t moved = a << (32 - bits);
  return sign ? static_cast<uint32_t>(static_cast<int32_t>(moved) >> (32 - bits)) : moved >> (32 - bits);
}

template <bool sign, bool wrap>
Handler extend_handler() {
  return elementwise<uint32_t, uint32_t, uint32_t>([](uint32_t a, uint32_t b) { return extended<sign, wrap>(a, b); });
}

bool decode_szext(Decoder &d) {
  bool sign = d.type() == Type::s32, wrap = d.has("wrap");
  if (!sign && d.type() != Type::u32) return false;
  return same_type_operands(d,
                            sign ? (wrap ? extend_handler<true, true>() : extend_handler<true, false>())
                                 : (wrap ? extend_handler<false, true>() : extend_handler<false, false>()),
                            2, d.type());
}

bool decode_cnot(Decoder &d) {
  Handler handler = by_width<1>(d.type(), [](auto a) { return static_cast<decltype(a)>(a == 0); });
  return same_type_operands(d, handler, 1, d.type());
}

enum class Mode { forward, backward, replicate8, edge_left, edge_right, replicate16 };

/// The source byte of every result byte, by the low bits of the selector.
template <Mode mode>
uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t s = selector & 3, result = 0;
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t from = 0;
    if constexpr (mode == Mode::forward) from = s + i;
    if constexpr (mode == Mode::backward) from = (8 + s - i) & 7;
    if constexpr (mode == Mode::replicate8) from = s;
    if constexpr (mode == Mode::edge_left) from = std::max(s, i);
    if constexpr (mode == Mode::edge_right) from = std::min(s, i);
    if constexpr (mode == Mode::replicate16) from = (s & 1) * 2 + (i & 1);
    result |= (static_cast<uint32_t>(bytes >> (8 * from)) & 255) << (8 * i);
  }
  return result;
}

template <Mode mode>
Handler permute_handler() {
  return elementwise<uint32_t, uint32_t, uint32_t, uint32_t>(
      [](uint32_t a, uint32_t b, uint32_t selector) { return permuted<mode>(a, b, selector); });
}

bool decode_prmt(Decoder &d) {
  Handler handler = d.has("f4e")    ? permute_handler<Mode::forward>()
                    : d.has("b4e")  ? permute_handler<Mode::backward>()
                    : d.has("rc8")  ? permute_handler<Mode::replicate8>()
                    : d.has("ecl")  ? permute_handler<Mode::edge_left>()
                    : d.has("ecr")  ? permute_handler<Mode::edge_right>()
                    : d.has("rc16") ? permute_handler<Mode::replicate16>()
                                    : nullptr;
  return same_type_operands(d, handler, 3, Type::b32);
}

/// lop3.or / .and d|p, a, b, c, table, q: p says whether the result is not 0, combined with q. list[0]: p, members: q.
/// detail: bit 0 "and", bit 1 flips q.
void lop3_predicate(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint32_t *a = warp.row<uint32_t>(instruction.a), *b = warp.row<uint32_t>(instruction.b);
  const uint32_t *c = warp.row<uint32_t>(instruction.c);
  uint32_t q = *warp.row<uint32_t>(instruction.members) ^ (instruction.detail & 2 ? all_lanes : 0);
  uint32_t computed[lanes], set = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint32_t result = 0;
    for (uint32_t term = 0; term < 8; term++)
      if (instruction.imm >> term & 1)
        result |= (term & 4 ? a[lane] : ~a[lane]) & (term & 2 ? b[lane] : ~b[lane]) & (term & 1 ? c[lane] : ~c[lane]);
    computed[lane] = result;
    set |= uint32_t{result != 0} << lane;
  }
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
  store_predicate(warp.row<uint32_t>(warp.list(instruction)[0]), instruction.detail & 1 ? set & q : set | q, mask);
}

bool decode_lop3(Decoder &d) {
  if (d.type() != Type::b32 || (!d.has("and") && !d.has("or"))) return false;
  d.expect_operands(6, 6);
  d.out().a = d.source(1, Type::b32);
  d.out().b = d.source(2, Type::b32);
  d.out().c = d.source(3, Type::b32);
  d.out().imm = d.immediate(4);
  d.out().members = d.source(5, Type::pred);
  d.out().detail = static_cast<uint16_t>(d.has("and") | d.operand(5).negated << 1);
  d.out().dst = d.destination(0, Type::b32);
  Slot predicate = d.second_destination(0);
  if (!predicate.exists()) d.fail("lop3 with a predicate needs one behind '|'");
  d.list({predicate});
  return d.run(lop3_predicate);
}

const Registration registration{{"bfind", decode_bfind}, {"fns", decode_fns},   {"bmsk", decode_bmsk},
                                {"szext", decode_szext}, {"cnot", decode_cnot}, {"prmt", decode_prmt},
                                {"lop3", decode_lop3}};

}  // namespace
}  // namespace fa::emu
