// A binary16 number as a float.
#pragma once
#include <bit>
#include <cstdint>

namespace fa_plugin {

inline float float_of_half(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 0x3FF;
  if (exponent == 0) return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(fraction) * 0x1p-24F));
  return std::bit_cast<float>(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

}  // namespace fa_plugin
