// Names of types: one table, read in both directions.
#include "ptx/type.h"

#include <array>
#include <utility>

namespace fa::emu::ptx {
namespace {

constexpr auto names = std::to_array<std::pair<std::string_view, Type>>({
    {"b8", Type::b8},
    {"b16", Type::b16},
    {"b32", Type::b32},
    {"b64", Type::b64},
    {"b128", Type::b128},
    {"u8", Type::u8},
    {"u16", Type::u16},
    {"u32", Type::u32},
    {"u64", Type::u64},
    {"s8", Type::s8},
    {"s16", Type::s16},
    {"s32", Type::s32},
    {"s64", Type::s64},
    {"f16", Type::f16},
    {"f16x2", Type::f16x2},
    {"bf16", Type::bf16},
    {"bf16x2", Type::bf16x2},
    {"f32", Type::f32},
    {"f32x2", Type::f32x2},
    {"f64", Type::f64},
    {"tf32", Type::tf32},
    {"e4m3", Type::e4m3},
    {"e5m2", Type::e5m2},
    {"e4m3x2", Type::e4m3x2},
    {"e5m2x2", Type::e5m2x2},
    {"e3m2", Type::e3m2},
    {"e2m3", Type::e2m3},
    {"e2m1", Type::e2m1},
    {"e3m2x2", Type::e3m2x2},
    {"e2m3x2", Type::e2m3x2},
    {"e2m1x2", Type::e2m1x2},
    {"ue8m0", Type::ue8m0},
    {"ue8m0x2", Type::ue8m0x2},
    {"ue4m3", Type::ue4m3},
    {"u16x2", Type::u16x2},
    {"s16x2", Type::s16x2},
    {"u8x4", Type::u8x4},
    {"s8x4", Type::s8x4},
    {"b1", Type::b1},
    {"u4", Type::u4},
    {"s4", Type::s4},
    {"b4x16", Type::b4x16},
    {"b6x16_p32", Type::b6x16_p32},
    {"b8x16", Type::b8x16},
    {"pred", Type::pred},
});

}  // namespace

Type type_of(std::string_view name) {
  for (const auto &[text, type] : names)
    if (text == name) return type;
  return Type::none;
}

std::string_view name_of(Type type) {
  for (const auto &[text, known] : names)
    if (known == type) return text;
  return "untyped";
}

}  // namespace fa::emu::ptx
