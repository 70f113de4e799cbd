// Rows of a tensor to and from packed f32: any dtype, any stride, no element beyond those requested.
#pragma once

#include "cpu/element.h"
#include "cpu/kernel/macros.h"
#include "cpu/kernel/vector_math.h"

namespace fa::cpu::FA_ISA {
namespace {

inline Vec load_vector(Element<FA_F32>, const uint32_t *p) {
  return Simd::load(reinterpret_cast<const float *>(p));
}
inline Vec load_vector(Element<FA_F16>, const uint16_t *p) {
  return Simd::load_f16(p);
}
inline Vec load_vector(Element<FA_BF16>, const uint16_t *p) {
  return Simd::load_bf16(p);
}
inline Vec load_vector(Element<FA_I8>, const int8_t *p) {
  return Simd::load_i8(p);
}
inline Vec load_vector(Element<FA_E4M3>, const uint8_t *p) {
  return Simd::load_e4m3(p);
}
inline Vec load_vector(Element<FA_E5M2>, const uint8_t *p) {
  return Simd::load_e5m2(p);
}
template <fa_dtype dtype>
inline Vec load_vector(const char *p) {
  return load_vector(Element<dtype>(), reinterpret_cast<const typename Element<dtype>::Bits *>(p));
}

inline void load_pair(Element<FA_BF16>, const uint16_t *p, Vec &even, Vec &odd) {
  Simd::load_bf16_pair(p, even, odd);
}

/// vectors * width elements, in pair order where the type has it: of every two vectors the first holds the even
/// elements, the second the odd ones, which for bf16 costs half of widening them in order. A single vector stays in
/// order.
template <fa_dtype dtype, int vectors>
inline void load_pairs(const char *p, Vec *to) {
  constexpr int64_t bytes = dtype_bytes(dtype);
  if constexpr (Element<dtype>::in_pairs && vectors % 2 == 0) {
    using Bits = typename Element<dtype>::Bits;
    FA_UNROLL for (int i = 0; i < vectors; i += 2)
        load_pair(Element<dtype>(), reinterpret_cast<const Bits *>(p) + i * width, to[i], to[i + 1]);
  } else {
    FA_UNROLL for (int i = 0; i < vectors; i++) to[i] = load_vector<dtype>(p + i * width * bytes);
  }
}

/// Puts a row of n elements (a multiple of the width) into pair order, or back in order.
inline void to_pair_order(float *row, int64_t n, bool back) {
  for (float *const end = row + n; row + 2 * width <= end; row += 2 * width) {
    float copy[2 * width];
    __builtin_memcpy(copy, row, sizeof copy);
    for (int i = 0; i < 2 * width; i++) {
      const int paired = i % 2 * width + i / 2;
      row[back ? i : paired] = copy[back ? paired : i];
    }
  }
}

inline void store_vector(Element<FA_F32>, uint32_t *p, Vec x) {
  Simd::store(reinterpret_cast<float *>(p), x);
}
inline void store_vector(Element<FA_F16>, uint16_t *p, Vec x) {
  Simd::store_f16(p, x);
}
inline void store_vector(Element<FA_BF16>, uint16_t *p, Vec x) {
  Simd::store_bf16(p, x);
}
template <fa_dtype dtype>
inline void store_vector(char *p, Vec x) {
  store_vector(Element<dtype>(), reinterpret_cast<typename Element<dtype>::Bits *>(p), x);
}

template <fa_dtype dtype>
inline void load_unit_row(float *to, const char *from, int64_t n) {
  constexpr int64_t bytes = dtype_bytes(dtype);
  int64_t i = 0;
  for (; i + width <= n; i += width) Simd::store(to + i, load_vector<dtype>(from + i * bytes));
  for (; i < n; i++) to[i] = load_element<dtype>(from + i * bytes);
}

/// to[0, n) = the n elements at from, `stride` bytes apart.
inline void load_row(float *to, const char *from, int64_t stride, fa_dtype dtype, int64_t n) {
  if (stride != dtype_bytes(dtype)) {
    for (int64_t i = 0; i < n; i++) to[i] = load_element(from + i * stride, dtype);
  } else {
    with_type(dtype, [&](auto type) { load_unit_row<decltype(type)::dtype>(to, from, n); });
  }
}

template <fa_dtype dtype>
inline void store_unit_row(char *to, const float *from, float factor, int64_t n) {
  constexpr int64_t bytes = dtype_bytes(dtype);
  const Vec factors = Simd::set1(factor);
  int64_t i = 0;
  for (; i + width <= n; i += width) store_vector<dtype>(to + i * bytes, Simd::mul(Simd::load(from + i), factors));
  for (; i < n; i++) store_element<dtype>(to + i * bytes, from[i] * factor);
}

/// The n elements at to, `stride` bytes apart, = factor * from[0, n).
inline void store_row(char *to, int64_t stride, fa_dtype dtype, const float *from, float factor, int64_t n) {
  if (stride != dtype_bytes(dtype)) {
    for (int64_t i = 0; i < n; i++) store_element(to + i * stride, dtype, from[i] * factor);
  } else {
    with_compute_type(dtype, [&](auto type) { store_unit_row<decltype(type)::dtype>(to, from, factor, n); });
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
