// Single elements of quantised keys and values, in f32: where no vector is worth it.
#pragma once

#include "collective/epilogue.cuh"
#include "collective/nonfinite.cuh"
#include "common/quantised_params.h"

namespace fa::kernels {

/// A byte of float8_e4m3fn as f32: its exponents are 120 below those of f32.
__device__ inline float from_e4m3(uint32_t byte) {
  const float size = __uint_as_float((byte & 0x7f) << 20) * 0x1p120f;
  return (byte & 0x7f) == 0x7f ? nan_value() : byte & 0x80 ? -size : size;
}

__device__ inline float half_at(const char *p) {
  return __half2float(*reinterpret_cast<const __half *>(p));
}

/// The scale of a block: NaN where it is not finite.
__device__ inline float finite_or_nan(float x) {
  return is_finite(x) ? x : nan_value();
}

/// Element d of a row: its code; its number, for blocks and other types. stride: bytes from one to the
/// next, where elements have addresses.
__device__ inline float load_code(const char *row, int64_t stride, int32_t dtype, int32_t d) {
  const auto byte_at = [](const char *p) { return uint32_t(*reinterpret_cast<const uint8_t *>(p)); };
  const auto half_byte = [&] { return byte_at(row + d / 2) >> d % 2 * 4 & 15; };
  switch (dtype) {
    case i8:
      return float(*reinterpret_cast<const int8_t *>(row + d * stride));
    case e4m3:
      return from_e4m3(byte_at(row + d * stride));
    case e5m2:
      return __half2float(__ushort_as_half(byte_at(row + d * stride) << 8));
    case i4:
      return float(int32_t(half_byte() << 28) >> 28);
    case u4:
      return float(half_byte());
    case q8_0: {
      const char *const block = row + d / 32 * 34;
      return float(*reinterpret_cast<const int8_t *>(block + 2 + d % 32)) * finite_or_nan(half_at(block));
    }
    case q4_0: {
      const char *const block = row + d / 32 * 18;
      const uint32_t code = byte_at(block + 2 + d % 16) >> d % 32 / 16 * 4 & 15;
      return float(int32_t(code) - 8) * finite_or_nan(half_at(block));
    }
    default:
      return load_element(row + d * stride, dtype);
  }
}

/// The scale, or the zero, of element d of key `key`.
__device__ inline float load_factor(const Params &p, const Factors &factors, const Sequence &s, int32_t key,
                                    int32_t head, int32_t d) {
  const char *const row = key_row(p, factors, s, key, head);
  return finite_or_nan(load_element(row + d / factors.channels * factors.stride[3], factors.dtype));
}

/// Keys, or values, with the scales and zeros of their codes.
struct CachedRows {
  const View &view;
  const Factors &scale, &zero;
  int32_t dtype;
  const View &rope;  // their elements from `dim` on; null: there are none
  int32_t dim, rope_dtype;

  __device__ static CachedRows keys(const QuantisedParams &p) {
    return {p.k, p.factors[k_scale], p.factors[k_zero], p.kv_dtype, p.k_rope, p.k_dim, p.k_rope_dtype};
  }
  __device__ static CachedRows values(const QuantisedParams &p) {
    return {p.v, p.factors[v_scale], p.factors[v_zero], p.v_dtype, p.k_rope, p.head_dim_v, p.k_rope_dtype};
  }

  /// Element d of key `key`.
  __device__ float element(const Params &p, const Sequence &s, int32_t key, int32_t head, int32_t d) const {
    if (d >= dim) return load_element(key_row(p, rope, s, key, head) + (d - dim) * rope.stride[3], rope_dtype);
    float x = load_code(key_row(p, view, s, key, head), view.stride[3], dtype, d);
    if (zero.data) x -= load_factor(p, zero, s, key, head, d);
    if (scale.data) x *= load_factor(p, scale, s, key, head, d);
    return x;
  }
};

/// As nonfinite_sum (nonfinite.cuh), of values of any type.
__device__ inline float special_cached_value(const QuantisedParams &p, const WorkTile &w, Row row, Interval keys,
                                             int32_t d) {
  const CachedRows values = CachedRows::values(p);
  float sum = 0;
#pragma unroll 1
  for (int32_t j = keys.low; j < keys.high; j++) {
    const float value = values.element(p, w.sequence, j, w.kv_head, d);
    if (!is_finite(value) && !hidden_with_tree<true>(p, w.sequence, row, j)) sum += value;
  }
  return sum;
}

/// Sets the elements of row `row` of the tile, which has a key at all, that attended values which are not finite reach
/// to the result of these; by `lanes` neighbouring lanes, of which this is number `lane`.
__device__ inline void add_special_cached_values(const QuantisedParams &p, const WorkTile &w, int32_t row,
                                                 Interval keys, int32_t lane, int32_t lanes) {
  const bool whole = p.schedule.num_splits == 1;
  const Row at = row_at(p, w, w.first_row + row);
  char *const to =
      whole ? out_row(p, w.sequence, at) : reinterpret_cast<char *>(p.o_partial + (w.partial_row + row) * p.head_dim_v);
  const int64_t stride = whole ? p.out.stride[3] : int64_t(sizeof(float));
  const int32_t dtype = whole ? p.out_dtype : int32_t(f32);
#pragma unroll 1
  for (int32_t d = lane; d < p.head_dim_v; d += lanes) {
    if (!is_finite(load_element(to + d * stride, dtype))) continue;
    const float special = special_cached_value(p, w, at, keys, d);
    if (special != 0) store_element(to + d * stride, dtype, special);
  }
}

}  // namespace fa::kernels
