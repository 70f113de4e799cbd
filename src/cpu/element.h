// Single elements of a tensor: the 16-bit types in plain integer arithmetic. Of internal linkage, as kernels are
// compiled for an ISA each.
#pragma once

#include "core/dtype.h"

namespace fa::cpu {
namespace {

inline float bits_to_float(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// True when some number is NaN or infinite.
inline bool any_special(const float *x, int64_t n) {
  uint32_t any = 0;  // its sign is set once an exponent was all ones
  for (int64_t i = 0; i < n; i++) any |= (float_to_bits(x[i]) & 0x7f800000) + 0x800000;
  return any >> 31 != 0;
}

inline float bf16_to_float(uint16_t x) {
  return bits_to_float(static_cast<uint32_t>(x) << 16);
}

inline uint16_t float_to_bf16(float x) {
  const uint32_t bits = float_to_bits(x);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// Exact: a half's value is representable. The multiplication renormalises subnormal halves.
inline float f16_to_float(uint16_t x) {
  const uint32_t sign = static_cast<uint32_t>(x & 0x8000) << 16;
  const uint32_t rest = static_cast<uint32_t>(x & 0x7fff) << 13;
  if ((x & 0x7c00) == 0x7c00) return bits_to_float(sign | rest | 0x7f800000);
  return bits_to_float(sign | float_to_bits(bits_to_float(rest) * 0x1p112f));
}

/// Round to nearest, ties to even; NaN stays NaN, overflow becomes infinity.
inline uint16_t float_to_f16(float x) {
  const uint32_t bits = float_to_bits(x);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {  // subnormal: the sum's last place is 2^-24
    const float sum = bits_to_float(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (float_to_bits(sum) - 0x3f000000));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

/// An element type as an argument: Type<FA_F16>().
template <fa_dtype type>
struct Type {
  static constexpr fa_dtype dtype = type;
};

/// Calls f(Type<dtype>()) for the type of q, k, v, out or bias.
template <class F>
[[gnu::always_inline]] inline auto with_type(fa_dtype dtype, const F &f) {
  switch (static_cast<Dtype>(dtype)) {
    case FA_F32:
      return f(Type<FA_F32>());
    case FA_F16:
      return f(Type<FA_F16>());
    case FA_BF16:
      return f(Type<FA_BF16>());
    case FA_BOOL:
    case FA_I32:
    case FA_DTYPE_DEFAULT:
      break;  // none of theirs
  }
  __builtin_unreachable();
}

template <fa_dtype dtype>
inline float load_element(const char *p) {
  if constexpr (dtype == FA_F32) {
    float value;
    __builtin_memcpy(&value, p, sizeof value);
    return value;
  } else {
    static_assert(dtype == FA_F16 || dtype == FA_BF16);
    uint16_t half;
    __builtin_memcpy(&half, p, sizeof half);
    return dtype == FA_F16 ? f16_to_float(half) : bf16_to_float(half);
  }
}
inline float load_element(const char *p, fa_dtype dtype) {
  return with_type(dtype, [&](auto type) { return load_element<decltype(type)::dtype>(p); });
}

template <fa_dtype dtype>
inline void store_element(char *p, float value) {
  if constexpr (dtype == FA_F32) {
    __builtin_memcpy(p, &value, sizeof value);
  } else {
    static_assert(dtype == FA_F16 || dtype == FA_BF16);
    const uint16_t half = dtype == FA_F16 ? float_to_f16(value) : float_to_bf16(value);
    __builtin_memcpy(p, &half, sizeof half);
  }
}
inline void store_element(char *p, fa_dtype dtype, float value) {
  with_type(dtype, [&](auto type) { store_element<decltype(type)::dtype>(p, value); });
}

}  // namespace
}  // namespace fa::cpu
