// Single numbers of 16-bit types, for small tensors that libfa reads as f32, and for sums that it has no call for.
#pragma once
#include <fa.h>

#include <bit>
#include <cstdint>

#include "plugin/half.h"

namespace fa_ort {

inline float to_float(const void *data, fa_dtype dtype, int64_t i) {
  if (dtype == FA_F32) return static_cast<const float *>(data)[i];
  const uint16_t bits = static_cast<const uint16_t *>(data)[i];
  return dtype == FA_F16 ? fa_plugin::float_of_half(bits) : std::bit_cast<float>(uint32_t(bits) << 16);
}

}  // namespace fa_ort
