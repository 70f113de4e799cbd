// Rows of quantised keys and values as vectors of f32: the codes of packed and one-byte types, the elements of blocks.
#pragma once

#include "cpu/codes.h"
#include "cpu/kernel/vectors.h"
#include "cpu/tile.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Half bytes: the low ones of `width` bytes, and the high ones.
inline void load_halves(Element<FA_I4>, const uint8_t *p, Vec &low, Vec &high) {
  Simd::load_i4_pair(p, low, high);
}
inline void load_halves(Element<FA_U4>, const uint8_t *p, Vec &low, Vec &high) {
  Simd::load_u4_pair(p, low, high);
}

/// `vectors` vectors of a block of 32 elements from element d on, times its scale.
template <int vectors>
inline void load_block(Element<FA_Q8_0>, const uint8_t *block, int64_t d, Vec *to) {
  const Vec scale = Simd::finite_or_nan(Simd::set1_f16(block));
  const auto *codes = reinterpret_cast<const int8_t *>(block + 2 + d);
  FA_UNROLL for (int i = 0; i < vectors; i++) to[i] = Simd::mul(Simd::load_i8(codes + i * width), scale);
}
template <int vectors>
inline void load_block(Element<FA_Q4_0>, const uint8_t *block, int64_t d, Vec *to) {
  constexpr int half = block_elements / 2;
  const Vec scale = Simd::finite_or_nan(Simd::set1_f16(block)), minus_8 = Simd::mul(Simd::set1(-8.0f), scale);
  const uint8_t *codes = block + 2 + d % half;
  const auto element = [&](Vec code) { return Simd::fma(code, scale, minus_8); };  // exact
  if constexpr (vectors * width == block_elements) {
    FA_UNROLL for (int i = 0; i < vectors / 2; i++) {
      Vec low, high;
      Simd::load_u4_pair(codes + i * width, low, high);
      to[i] = element(low);
      to[i + vectors / 2] = element(high);
    }
  } else {
    FA_UNROLL for (int i = 0; i < vectors; i++) {
      Vec low, high;
      Simd::load_u4_pair(codes + i * width, low, high);
      to[i] = element(d < half ? low : high);
    }
  }
}

/// vectors * width elements of a row from d on, d a multiple of that: codes, or elements of blocks. In pair order where
/// the type has it (load_pairs).
template <fa_dtype dtype, int vectors>
inline void load_codes(const char *row, int64_t d, Vec *to) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(row);
  if constexpr (code_kind(dtype) == CodeKind::block) {
    constexpr int together = smaller<int>(vectors, block_elements / width);
    FA_UNROLL for (int i = 0; i < vectors; i += together) {
      const int64_t at = d + i * width, in_block = at % block_elements;
      load_block<together>(Element<dtype>(), bytes + row_bytes(dtype, at - in_block), in_block, to + i);
    }
  } else if constexpr (!is_packed(dtype)) {
    load_pairs<dtype, vectors>(row + d, to);
  } else if constexpr (vectors % 2 == 0) {
    FA_UNROLL for (int i = 0; i < vectors; i += 2)
        load_halves(Element<dtype>(), bytes + (d + i * width) / 2, to[i], to[i + 1]);
  } else {  // half a pair is read by the element: there may be no more
    alignas(64) float codes[width];
    for (int i = 0; i < width; i++) codes[i] = Element<dtype>::at(bytes, d + i);
    *to = Simd::load(codes);
  }
}

/// to[0, n) = the codes of a row, or the elements of its blocks, times `scale`.
template <fa_dtype dtype>
inline void load_unit_codes(float *to, const char *row, int64_t n, float scale) {
  const Vec factor = Simd::set1(scale);
  const auto store = [&](int64_t i, Vec x) { Simd::store(to + i, Simd::mul(x, factor)); };
  int64_t d = 0;
  if constexpr (code_kind(dtype) == CodeKind::block) {
    constexpr int vectors = block_elements / width;
    for (; d < n; d += block_elements) {
      Vec elements[vectors];
      load_codes<dtype, vectors>(row, d, elements);
      for (int i = 0; i < vectors; i++) store(d + i * width, elements[i]);
    }
  } else if constexpr (is_packed(dtype)) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(row);
    for (; d + 2 * width <= n; d += 2 * width) {
      Vec low, high;
      load_halves(Element<dtype>(), bytes + d / 2, low, high);
      const Floats even = as_floats(low), odd = as_floats(high);
      store(d, as_vec(alternate_lanes<0>(even, odd, LaneNumbers())));
      store(d + width, as_vec(alternate_lanes<width / 2>(even, odd, LaneNumbers())));
    }
    for (; d < n; d++) to[d] = Element<dtype>::at(bytes, d) * scale;
  } else {
    for (; d + width <= n; d += width) store(d, load_vector<dtype>(row + d));
    for (; d < n; d++) to[d] = load_element<dtype>(row + d) * scale;
  }
}

/// Multiplies the elements of key j by its scales, or subtracts its zeros from them.
inline void apply_factor(float *row, const Factors &factors, const Pages &pages, int64_t j, int64_t dim, bool scale) {
  const char *from = row_of(factors, pages, j);
  const auto applied = [scale](Vec x, Vec factor) { return scale ? Simd::mul(x, factor) : Simd::sub(x, factor); };
  const auto apply = [&](float *x, const float *factor, int64_t step, int64_t n) {
    int64_t i = 0;
    for (; i + width <= n; i += width) {
      const Vec f = step == 0 ? Simd::set1(*factor) : Simd::load(factor + i);
      Simd::store(x + i, applied(Simd::load(x + i), f));
    }
    for (; i < n; i++) x[i] = scale ? x[i] * factor[i * step] : x[i] - factor[i * step];
  };
  float each[FA_MAX_HEAD_DIM];
  const int64_t groups = dim / factors.channels;
  load_row(each, from, factors.element, factors.dtype, groups);
  for (int64_t i = 0; i < groups; i++) each[i] = finite_or_nan(each[i]);
  if (factors.channels == 1) return apply(row, each, 1, dim);
  for (int64_t i = 0; i < groups; i++) apply(row + i * factors.channels, each + i, 0, factors.channels);
}

/// to[0, dim) = key j's elements: any type, any stride.
inline void load_cached_row(float *to, const CacheRows &rows, const RowFactors &factors, const Pages &pages, int64_t j,
                            int64_t dim) {
  const char *from = row_of(rows, pages, j);
  if (!is_quantised(rows.dtype)) return load_row(to, from, rows.element, rows.dtype, dim);
  if (is_packed(rows.dtype) || rows.element == dtype_bytes(rows.dtype)) {
    const bool one_scale = factors.scale && factors.scale.per_key(dim) && !factors.zero;
    const float scale = one_scale ? factor_of(factors.scale, pages, j, 0) : 1;
    with_codes(rows.dtype, [&](auto type) { load_unit_codes<decltype(type)::dtype>(to, from, dim, scale); });
    if (one_scale) return;
  } else {
    for (int64_t d = 0; d < dim; d++) to[d] = load_code(from, rows.element, rows.dtype, d);
  }
  if (factors.zero) apply_factor(to, factors.zero, pages, j, dim, false);
  if (factors.scale) apply_factor(to, factors.scale, pages, j, dim, true);
}

/// to[0, dim) = key j, of one part or of two.
inline void load_key(float *to, const KeyStream &s, int64_t j, int64_t dim) {
  const int64_t first = dim - s.k_rope_dim;
  load_cached_row(to, s.k, s.k_factors, s.pages, j, first);
  if (s.k_rope_dim != 0)
    load_row(to + first, row_of(s.k_rope, s.pages, j), s.k_rope.element, s.k_rope.dtype, s.k_rope_dim);
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
