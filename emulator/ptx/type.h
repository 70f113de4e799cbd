// The fundamental types of PTX: those after the dots of an opcode and in declarations of registers.
#pragma once

#include <cstdint>
#include <string_view>

namespace fa::emu::ptx {

enum class Type : uint8_t {
  none,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f32x2,
  f64,
  tf32,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
  e3m2,
  e2m3,
  e2m1,
  e3m2x2,
  e2m3x2,
  e2m1x2,
  ue8m0,
  ue8m0x2,
  ue4m3,
  u16x2,
  s16x2,
  u8x4,
  s8x4,
  b1,
  u4,
  s4,
  b4x16,
  b6x16_p32,
  b8x16,
  pred,
};

/// The type of that name ("u32", without a dot), none where there is no such type.
Type type_of(std::string_view name);

/// Its name without a dot.
std::string_view name_of(Type type);

/// Bytes of one value in memory; 0 for none and pred. Sub-byte types count as one byte.
constexpr uint32_t bytes_of(Type type) {
  switch (type) {
    case Type::none:
    case Type::pred:
      return 0;
    case Type::b16:
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16:
    case Type::e4m3x2:
    case Type::e5m2x2:
    case Type::e3m2x2:
    case Type::e2m3x2:
    case Type::ue8m0x2:
      return 2;
    case Type::b32:
    case Type::u32:
    case Type::s32:
    case Type::f16x2:
    case Type::bf16x2:
    case Type::f32:
    case Type::tf32:
    case Type::u16x2:
    case Type::s16x2:
    case Type::u8x4:
    case Type::s8x4:
      return 4;
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64:
    case Type::f32x2:
      return 8;
    case Type::b128:
    case Type::b4x16:
    case Type::b6x16_p32:
    case Type::b8x16:
      return 16;
    default:
      return 1;
  }
}

constexpr bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

/// Integers and untyped bits of 8 to 64 bits: the operands of integer, logic and shift instructions.
constexpr bool is_integer(Type type) {
  return type >= Type::b8 && type <= Type::s64 && type != Type::b128;
}

/// Floating point types that arithmetic instructions take.
constexpr bool is_float(Type type) {
  return type >= Type::f16 && type <= Type::f64;
}

}  // namespace fa::emu::ptx
