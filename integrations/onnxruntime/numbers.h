// Single numbers of 16-bit types, for small tensors that libfa reads as f32, and for sums that it has no call for.
#pragma once
#include <fa.h>

#include <bit>
#include <cstdint>

namespace fa_ort {

inline float float_of_half(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 0x3FF;
  if (exponent == 0) return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(fraction) * 0x1p-24F));
  return std::bit_cast<float>(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

inline float to_float(const void *data, fa_dtype dtype, int64_t i) {
  if (dtype == FA_F32) return static_cast<const float *>(data)[i];
  const uint16_t bits = static_cast<const uint16_t *>(data)[i];
  return dtype == FA_F16 ? float_of_half(bits) : std::bit_cast<float>(uint32_t(bits) << 16);
}

}  // namespace fa_ort
