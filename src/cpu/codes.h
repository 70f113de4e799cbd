// Quantised keys and values, one element at a time: its code, and its number. Of internal linkage, as
// kernels are compiled for an ISA each.
#pragma once

#include "cpu/cache.h"
#include "cpu/element.h"

namespace fa::cpu {
namespace {

/// The code of element d of a row; of blocks, times its scale. stride: bytes from an element to the next, where
/// elements have addresses.
inline float load_code(const char *row, int64_t stride, fa_dtype dtype, int64_t d) {
  return with_cache_type(dtype, [&](auto type) {
    if constexpr (is_packed(type.dtype)) {
      return type.at(reinterpret_cast<const uint8_t *>(row), d);
    } else {
      return load_element<type.dtype>(row + d * stride);
    }
  });
}

/// A scale or a zero: NaN where it is not finite.
inline float finite_or_nan(float x) {
  return x + (x - x);
}

/// The scale, or the zero, of element d of key j.
inline float factor_of(const Factors &factors, const Pages &pages, int64_t j, int64_t d) {
  const char *row = row_of(factors, pages, j);
  return finite_or_nan(load_element(row + d / factors.channels * factors.element, factors.dtype));
}

/// Element d of key j.
inline float load_cached(const CacheRows &rows, const RowFactors &factors, const Pages &pages, int64_t j, int64_t d) {
  const float code = load_code(row_of(rows, pages, j), rows.element, rows.dtype, d);
  const float zero = factors.zero ? factor_of(factors.zero, pages, j, d) : 0;
  return factors.scale ? (code - zero) * factor_of(factors.scale, pages, j, d) : code - zero;
}

}  // namespace
}  // namespace fa::cpu
