// cvt that packs two numbers: f16x2, bf16x2, e4m3x2, e5m2x2, e3m2x2, e2m3x2, e2m1x2, ue8m0x2 from two f32 or from a
// pair of halves, and back to pairs of halves; cvt.pack of integers (PTX ISA 9.7.9, cvt and cvt.pack).
#include <algorithm>

#include "exec/dispatch.h"
#include "exec/format.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// Instruction::detail.
enum Modifier : uint16_t { relu = 1, round_up = 2, finite = 4 };

double clamped(uint16_t detail, double value) {
  return (detail & relu) && value == value && !(value > 0) ? 0 : value;
}

/// ue8m0 has powers of two only, and no sign: the magnitude, rounded up or down to one.
uint32_t encode_scale(uint16_t detail, float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value) & 0x7fffffff, exponent = bits >> 23, fraction = bits & 0x7fffff;
  if (bits > 0x7f800000) return 255;
  bool above = exponent == 0 ? fraction > 0x400000 : fraction != 0;
  uint32_t code = exponent + ((detail & round_up) && above ? 1 : 0);
  return code >= 255 && (detail & finite) ? 254 : code;
}

/// The sources: two rows of f32, or one of pairs. high and low go to the result's upper and lower part.
struct FromFloats {
  static double high(const Warp &w, const Instruction &i, uint32_t lane) { return w.row<float>(i.a)[lane]; }
  static double low(const Warp &w, const Instruction &i, uint32_t lane) { return w.row<float>(i.b)[lane]; }
};
struct FromHalves {
  static double high(const Warp &w, const Instruction &i, uint32_t lane) {
    return float_from_half(w.row<uint16_t>(i.a)[2 * lane + 1]);
  }
  static double low(const Warp &w, const Instruction &i, uint32_t lane) {
    return float_from_half(w.row<uint16_t>(i.a)[2 * lane]);
  }
};
struct FromBfloats {
  static double high(const Warp &w, const Instruction &i, uint32_t lane) {
    return float_from_bfloat(w.row<uint16_t>(i.a)[2 * lane + 1]);
  }
  static double low(const Warp &w, const Instruction &i, uint32_t lane) {
    return float_from_bfloat(w.row<uint16_t>(i.a)[2 * lane]);
  }
};

/// One number to its code.
template <Format format, Round round, bool saturate>
struct Narrow {
  static uint32_t code(uint16_t detail, double value) {
    return encode<format, round, saturate>(clamped(detail, value));
  }
};
struct Scale {
  static uint32_t code(uint16_t detail, double value) { return encode_scale(detail, static_cast<float>(value)); }
};

template <class R, int bits, class Source, class To>
void pack(Warp &warp, const Instruction &instruction, uint32_t mask) {
  R computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint32_t high = To::code(instruction.detail, Source::high(warp, instruction, lane));
    uint32_t low = To::code(instruction.detail, Source::low(warp, instruction, lane));
    computed[lane] = static_cast<R>(high << bits | low);
  }
  store_lanes(warp.row<R>(instruction.dst), computed, mask);
}

template <class R, int bits, class To>
Handler pack_from(Type source) {
  switch (source) {
    case Type::f32:
      return pack<R, bits, FromFloats, To>;
    case Type::f16x2:
      return pack<R, bits, FromHalves, To>;
    case Type::bf16x2:
      return pack<R, bits, FromBfloats, To>;
    default:
      return nullptr;
  }
}

template <Format format>
Handler pair_from_floats(const Decoder &d) {
  if (d.has("rz"))
    return d.has("satfinite") ? pack<uint32_t, 16, FromFloats, Narrow<format, Round::zero, true>>
                              : pack<uint32_t, 16, FromFloats, Narrow<format, Round::zero, false>>;
  return d.has("satfinite") ? pack<uint32_t, 16, FromFloats, Narrow<format, Round::nearest, true>>
                            : pack<uint32_t, 16, FromFloats, Narrow<format, Round::nearest, false>>;
}

Handler packing(const Decoder &d, Type to, Type source) {
  switch (to) {
    case Type::f16x2:
      return source == Type::f32 ? pair_from_floats<f16_format>(d) : nullptr;
    case Type::bf16x2:
      return source == Type::f32 ? pair_from_floats<bf16_format>(d) : nullptr;
    case Type::e4m3x2:
      return pack_from<uint16_t, 8, Narrow<e4m3_format, Round::nearest, true>>(source);
    case Type::e5m2x2:
      return pack_from<uint16_t, 8, Narrow<e5m2_format, Round::nearest, true>>(source);
    case Type::e3m2x2:
      return pack_from<uint16_t, 8, Narrow<e3m2_format, Round::nearest, true>>(source);
    case Type::e2m3x2:
      return pack_from<uint16_t, 8, Narrow<e2m3_format, Round::nearest, true>>(source);
    case Type::e2m1x2:
      return pack_from<uint16_t, 4, Narrow<e2m1_format, Round::nearest, true>>(source);
    case Type::ue8m0x2:
      return source == Type::f16x2 ? nullptr : pack_from<uint16_t, 8, Scale>(source);
    default:
      return nullptr;
  }
}

/// Codes of this many bits to halves: exact for all formats but where bf16 holds the result.
template <Format format, int bits>
void unpack_to_halves(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint16_t *a = warp.row<uint16_t>(instruction.a);
  uint32_t computed[lanes];
  auto half = [&](uint32_t code) {
    double value = clamped(instruction.detail, decode<format>(code & ((1u << bits) - 1)));
    return encode<f16_format, Round::nearest, false>(value);
  };
  for (uint32_t lane = 0; lane < lanes; lane++) computed[lane] = half(uint32_t{a[lane]} >> bits) << 16 | half(a[lane]);
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
}

/// ue8m0 to bf16: the exponent moves to its place; 2^-127 is a subnormal number.
void unpack_scales(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint16_t *a = warp.row<uint16_t>(instruction.a);
  uint32_t computed[lanes];
  auto bfloat = [](uint32_t code) { return code == 255 ? 0x7fffu : code == 0 ? 0x40u : code << 7; };
  for (uint32_t lane = 0; lane < lanes; lane++) computed[lane] = bfloat(a[lane] >> 8) << 16 | bfloat(a[lane] & 255);
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
}

Handler unpacking(Type to, Type source) {
  if (to == Type::bf16x2) return source == Type::ue8m0x2 ? unpack_scales : nullptr;
  if (to != Type::f16x2) return nullptr;
  switch (source) {
    case Type::e4m3x2:
      return unpack_to_halves<e4m3_format, 8>;
    case Type::e5m2x2:
      return unpack_to_halves<e5m2_format, 8>;
    case Type::e3m2x2:
      return unpack_to_halves<e3m2_format, 8>;
    case Type::e2m3x2:
      return unpack_to_halves<e2m3_format, 8>;
    case Type::e2m1x2:
      return unpack_to_halves<e2m1_format, 4>;
    default:
      return nullptr;
  }
}

bool decode_pair(Decoder &d) {
  if (d.opcode().types.size() != 2 || d.has("pack") || d.has("rs") || d.has("scaled::n2::ue8m0")) return false;
  Type to = d.type(0), source = d.type(1);
  bool plain = !d.has("rz") && !d.has("relu") && !d.has("satfinite");
  if (plain && source == Type::f32 && ptx::bytes_of(to) == 4) return false;  // convert.cpp has these as vector code
  Handler handler = packing(d, to, source);
  if (!handler) handler = unpacking(to, source);
  if (!handler) return false;
  d.out().detail = static_cast<uint16_t>((d.has("relu") ? relu : 0) | (d.has("rp") ? round_up : 0) |
                                         (d.has("satfinite") ? finite : 0));
  bool two = source == Type::f32;
  d.expect_operands(two ? 3 : 2, two ? 3 : 2);
  d.out().a = d.source(1, source);
  if (two) d.out().b = d.source(2, source);
  d.out().dst = d.destination(0, to);
  return d.run(handler);
}

/// detail: bits of a part. imm: the smallest and, from bit 32 on, the largest value; c: the part that moves up, if it
/// is there.
void pack_integers(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const int32_t *a = warp.row<int32_t>(instruction.a), *b = warp.row<int32_t>(instruction.b);
  const uint32_t *c = warp.row<uint32_t>(instruction.c);
  int32_t least = static_cast<int32_t>(instruction.imm), most = static_cast<int32_t>(instruction.imm >> 32);
  uint32_t bits = instruction.detail, part = (1u << bits) - 1, computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint32_t high = static_cast<uint32_t>(std::clamp(a[lane], least, most)) & part;
    uint32_t low = static_cast<uint32_t>(std::clamp(b[lane], least, most)) & part;
    uint32_t above = bits == 16 ? 0 : c[lane] << (2 * bits);
    computed[lane] = above | high << bits | low;
  }
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
}

/// cvt.pack.sat.type.s32 d, a, b; with 8 bits or fewer: cvt.pack.sat.type.s32.b32 d, a, b, c.
bool decode_pack(Decoder &d) {
  if (!d.has("pack") || !d.has("sat") || d.type(1) != Type::s32) return false;
  uint32_t bits = d.type() == Type::u4 || d.type() == Type::s4 ? 4 : 8 * ptx::bytes_of(d.type());
  bool sign = ptx::is_signed(d.type()) || d.type() == Type::s4;
  if (d.has("u2") || d.has("s2")) d.fail("cvt.pack of 2-bit integers");
  if (bits > 16) return false;
  uint64_t most = (uint64_t{1} << (sign ? bits - 1 : bits)) - 1;
  uint32_t least = sign ? ~static_cast<uint32_t>(most) : 0;
  d.out().imm = static_cast<int64_t>(most << 32 | least);
  d.out().detail = static_cast<uint16_t>(bits);
  d.expect_operands(bits == 16 ? 3 : 4, bits == 16 ? 3 : 4);
  d.out().a = d.source(1, Type::s32);
  d.out().b = d.source(2, Type::s32);
  d.out().c = bits == 16 ? d.constant(0, 4) : d.source(3, Type::b32);
  d.out().dst = d.destination(0, Type::b32);
  return d.run(pack_integers);
}

const Registration registration{{"cvt", decode_pair}, {"cvt", decode_pack}};

}  // namespace
}  // namespace fa::emu
