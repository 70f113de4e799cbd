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

/// An element type: its bits in memory, and the number that they are. As an argument: Element<FA_F16>().
template <fa_dtype>
struct Element;

template <>
struct Element<FA_F32> {
  static constexpr fa_dtype dtype = FA_F32;
  static constexpr bool in_pairs = false;  // kernel/convert.h loads its vectors in pair order
  using Bits = uint32_t;
  static float to_float(Bits x) { return bits_to_float(x); }
  static Bits from_float(float x) { return float_to_bits(x); }
};

template <>
struct Element<FA_F16> {
  static constexpr fa_dtype dtype = FA_F16;
  static constexpr bool in_pairs = false;
  using Bits = uint16_t;
  static float to_float(Bits x) { return f16_to_float(x); }
  static Bits from_float(float x) { return float_to_f16(x); }
};

template <>
struct Element<FA_BF16> {
  static constexpr fa_dtype dtype = FA_BF16;
  static constexpr bool in_pairs = true;
  using Bits = uint16_t;
  static float to_float(Bits x) { return bf16_to_float(x); }
  static Bits from_float(float x) { return float_to_bf16(x); }
};

template <>
struct Element<FA_I8> {
  static constexpr fa_dtype dtype = FA_I8;
  static constexpr bool in_pairs = false;
  static constexpr float first_code = -128, last_code = 127, largest_code = 127;  // of max |x|, by a computed scale
  using Bits = int8_t;
  static float to_float(Bits x) { return x; }
};

template <>
struct Element<FA_E4M3> {
  static constexpr fa_dtype dtype = FA_E4M3;
  static constexpr bool in_pairs = false;
  static constexpr float largest_code = 448;
  using Bits = uint8_t;
  static float to_float(Bits x) {  // as a half of fewer bits, whose exponents are 8 less
    const uint32_t magnitude = x & 0x7f, sign = x & 0x80;
    if (magnitude == 0x7f) return bits_to_float(sign << 24 | 0x7fc00000);
    return f16_to_float(static_cast<uint16_t>(sign << 8 | magnitude << 7)) * 0x1p8f;
  }
};

template <>
struct Element<FA_E5M2> {
  static constexpr fa_dtype dtype = FA_E5M2;
  static constexpr bool in_pairs = false;
  static constexpr float largest_code = 57344;
  using Bits = uint8_t;
  static float to_float(Bits x) { return f16_to_float(static_cast<uint16_t>(x << 8)); }
};

/// Packed: an element is known by its place in a row.
template <>
struct Element<FA_I4> {
  static constexpr fa_dtype dtype = FA_I4;
  static constexpr bool in_pairs = true;
  static constexpr float first_code = -8, last_code = 7, largest_code = 7;
  static int8_t low(uint8_t byte) { return static_cast<int8_t>(((byte & 15) ^ 8) - 8); }
  static int8_t high(uint8_t byte) { return static_cast<int8_t>(((byte >> 4) ^ 8) - 8); }
  static float at(const uint8_t *row, int64_t d) { return d % 2 == 0 ? low(row[d / 2]) : high(row[d / 2]); }
};

template <>
struct Element<FA_U4> {
  static constexpr fa_dtype dtype = FA_U4;
  static constexpr bool in_pairs = true;
  static constexpr float first_code = 0, last_code = 15, largest_code = 15;
  static int8_t low(uint8_t byte) { return byte & 15; }
  static int8_t high(uint8_t byte) { return static_cast<int8_t>(byte >> 4); }
  static float at(const uint8_t *row, int64_t d) { return d % 2 == 0 ? low(row[d / 2]) : high(row[d / 2]); }
};

/// Elements of a block.
constexpr int64_t block_elements = 32;

/// The scale of a block, which it begins with; NaN where it is not finite.
inline float block_scale(const uint8_t *block) {
  uint16_t bits;
  __builtin_memcpy(&bits, block, sizeof bits);
  const float scale = f16_to_float(bits);
  return scale + (scale - scale);
}

template <>
struct Element<FA_Q8_0> {
  static constexpr fa_dtype dtype = FA_Q8_0;
  static constexpr bool in_pairs = false;
  static float at(const uint8_t *row, int64_t d) {
    const uint8_t *block = row + row_bytes(dtype, d / block_elements * block_elements);
    return static_cast<float>(static_cast<int8_t>(block[2 + d % block_elements])) * block_scale(block);
  }
};

template <>
struct Element<FA_Q4_0> {
  static constexpr fa_dtype dtype = FA_Q4_0;
  static constexpr bool in_pairs = false;
  static float at(const uint8_t *row, int64_t d) {
    const uint8_t *block = row + row_bytes(dtype, d / block_elements * block_elements);
    const int code = block[2 + d % 16] >> (d % block_elements / 16 * 4) & 15;
    return static_cast<float>(code - 8) * block_scale(block);
  }
};

#define FA_CALL(type) \
  case type:          \
    return f(Element<type>());
#define FA_NONE(type) \
  case type:          \
    break;

/// Calls f(Element<dtype>()) for the type of q, or of k and v that are not quantised, or one of the others.
template <class F>
[[gnu::always_inline]] inline auto with_type(fa_dtype dtype, const F &f) {
  switch (static_cast<Dtype>(dtype)) {
#define FA_ELEMENT_compute FA_CALL
#define FA_ELEMENT_cache FA_CALL
#define FA_ELEMENT_other FA_NONE
#define FA_ELEMENT(dtype, number, name, use, bits) FA_ELEMENT_##use(FA_##dtype)
#include "core/all_elements.inc"
#undef FA_ELEMENT_cache
#define FA_CODES(dtype, number, name, kind, elements, bytes) FA_NONE(FA_##dtype)
#include "core/codes.inc"
#undef FA_CODES
    FA_NONE(FA_DTYPE_DEFAULT)
  }
  __builtin_unreachable();
}

/// Calls f(Element<dtype>()) for the type of a quantised k or v.
template <class F>
[[gnu::always_inline]] inline auto with_codes(fa_dtype dtype, const F &f) {
  switch (dtype) {
#define FA_CODES(dtype, number, name, kind, elements, bytes) FA_CALL(FA_##dtype)
#include "core/codes.inc"
#undef FA_CODES
  }
  __builtin_unreachable();
}

/// The same over the types of k and v.
template <class F>
[[gnu::always_inline]] inline auto with_cache_type(fa_dtype dtype, const F &f) {
  return is_quantised(dtype) ? with_codes(dtype, f) : with_type(dtype, f);
}

/// Calls f(Element<dtype>()) for the type of out, the bias or a gradient.
template <class F>
[[gnu::always_inline]] inline auto with_compute_type(fa_dtype dtype, const F &f) {
  switch (static_cast<Dtype>(dtype)) {
#define FA_ELEMENT_cache FA_NONE
#include "core/all_elements.inc"
#undef FA_ELEMENT_cache
#undef FA_ELEMENT_compute
#undef FA_ELEMENT_other
#undef FA_ELEMENT
#define FA_CODES(dtype, number, name, kind, elements, bytes) FA_NONE(FA_##dtype)
#include "core/codes.inc"
#undef FA_CODES
    FA_NONE(FA_DTYPE_DEFAULT)
  }
  __builtin_unreachable();
}

#undef FA_CALL
#undef FA_NONE

template <fa_dtype dtype>
inline float load_element(const char *p) {
  typename Element<dtype>::Bits bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return Element<dtype>::to_float(bits);
}
inline float load_element(const char *p, fa_dtype dtype) {
  return with_type(dtype, [&](auto type) { return load_element<type.dtype>(p); });
}

template <fa_dtype dtype>
inline void store_element(char *p, float value) {
  const typename Element<dtype>::Bits bits = Element<dtype>::from_float(value);
  __builtin_memcpy(p, &bits, sizeof bits);
}
inline void store_element(char *p, fa_dtype dtype, float value) {
  with_compute_type(dtype, [&](auto type) { store_element<type.dtype>(p, value); });
}

/// Whether vectors of a type are loaded in pair order.
inline bool in_pairs(fa_dtype dtype) {
  return with_cache_type(dtype, [](auto type) { return type.in_pairs; });
}

}  // namespace
}  // namespace fa::cpu
