// Rows of new tokens in another type, or rotated, or both: by way of f32, in which each number is rounded once.
#pragma once

#include "cpu/kernel/hadamard.h"
#include "cpu/kernel/vectors.h"
#include "cpu/token_rows.h"

namespace fa::cpu::FA_ISA {
namespace {

/// A row of numbers in f32.
struct alignas(64) RowBuffer {
  float x[FA_MAX_HEAD_DIM];
};

/// Cosines and sines of a token, in f32: where the tables have them, or copies.
class Rotation {
 public:
  const float *cos, *sin;

  explicit Rotation(const TokenRotation &rotation)
      : cos(in_f32(rotation.cos, rotation.cos_elem, rotation.cos_dtype, rotation.pairs, cos_.x)),
        sin(in_f32(rotation.sin, rotation.sin_elem, rotation.sin_dtype, rotation.pairs, sin_.x)) {}

 private:
  static const float *in_f32(const char *from, int64_t elem, fa_dtype dtype, int64_t pairs, float *copy) {
    if (dtype == FA_F32 && elem == dtype_bytes(FA_F32)) return reinterpret_cast<const float *>(from);
    if (pairs > 0) load_row(copy, from, elem, dtype, pairs);
    return copy;
  }

  RowBuffer cos_, sin_;
};

/// The pairs (from[j], from[pairs + j]), rotated. `to` may be `from`.
template <fa_dtype from_dtype, fa_dtype to_dtype>
inline void rotate_halves(const char *from, char *to, const Rotation &r, int64_t pairs) {
  constexpr int64_t from_bytes = dtype_bytes(from_dtype), to_bytes = dtype_bytes(to_dtype);
  int64_t j = 0;
  for (; j + width <= pairs; j += width) {
    const Vec x = load_vector<from_dtype>(from + j * from_bytes), c = Simd::load(r.cos + j);
    const Vec y = load_vector<from_dtype>(from + (pairs + j) * from_bytes), s = Simd::load(r.sin + j);
    store_vector<to_dtype>(to + j * to_bytes, Simd::sub(Simd::mul(x, c), Simd::mul(y, s)));
    store_vector<to_dtype>(to + (pairs + j) * to_bytes, Simd::fma(x, s, Simd::mul(y, c)));
  }
  for (; j < pairs; j++) {
    const float x = load_element<from_dtype>(from + j * from_bytes), c = r.cos[j];
    const float y = load_element<from_dtype>(from + (pairs + j) * from_bytes), s = r.sin[j];
    store_element<to_dtype>(to + j * to_bytes, x * c - y * s);
    store_element<to_dtype>(to + (pairs + j) * to_bytes, x * s + y * c);
  }
}

/// The pairs (from[2 j], from[2 j + 1]), rotated. `to` may be `from`.
template <fa_dtype from_dtype, fa_dtype to_dtype>
inline void rotate_neighbours(const char *from, char *to, const Rotation &r, int64_t pairs) {
  constexpr int64_t from_bytes = dtype_bytes(from_dtype), to_bytes = dtype_bytes(to_dtype);
  int64_t j = 0;
  for (; j + width <= pairs; j += width) {
    const Floats low = as_floats(load_vector<from_dtype>(from + 2 * j * from_bytes));
    const Floats high = as_floats(load_vector<from_dtype>(from + (2 * j + width) * from_bytes));
    const Vec x = as_vec(lanes_of<0, 2>(low, high, LaneNumbers())), c = Simd::load(r.cos + j);
    const Vec y = as_vec(lanes_of<1, 2>(low, high, LaneNumbers())), s = Simd::load(r.sin + j);
    const Floats first = as_floats(Simd::sub(Simd::mul(x, c), Simd::mul(y, s)));
    const Floats second = as_floats(Simd::fma(x, s, Simd::mul(y, c)));
    store_vector<to_dtype>(to + 2 * j * to_bytes, as_vec(alternate_lanes<0>(first, second, LaneNumbers())));
    store_vector<to_dtype>(to + (2 * j + width) * to_bytes,
                           as_vec(alternate_lanes<width / 2>(first, second, LaneNumbers())));
  }
  for (; j < pairs; j++) {
    const float x = load_element<from_dtype>(from + 2 * j * from_bytes), c = r.cos[j];
    const float y = load_element<from_dtype>(from + (2 * j + 1) * from_bytes), s = r.sin[j];
    store_element<to_dtype>(to + 2 * j * to_bytes, x * c - y * s);
    store_element<to_dtype>(to + (2 * j + 1) * to_bytes, x * s + y * c);
  }
}

/// 2 * pairs elements, rotated. `to` may be `from`.
template <fa_dtype from_dtype, fa_dtype to_dtype>
inline void rotate_row(const char *from, char *to, const Rotation &r, const TokenRotation &rotation) {
  if (rotation.interleaved) {
    rotate_neighbours<from_dtype, to_dtype>(from, to, r, rotation.pairs);
  } else {
    rotate_halves<from_dtype, to_dtype>(from, to, r, rotation.pairs);
  }
}

/// Rows of any length, rounded to the type of their place.
inline void convert_rows(const TokenRows &rows) {
  RowBuffer row;
  for (int64_t head = 0; head < rows.heads; head++) {
    const char *const from = rows.from + head * rows.from_head;
    char *const to = rows.to + head * rows.to_head;
    for (int64_t d = 0; d < rows.dim; d += FA_MAX_HEAD_DIM) {
      const int64_t n = smaller<int64_t>(rows.dim - d, FA_MAX_HEAD_DIM);
      load_row(row.x, from + d * rows.from_elem, rows.from_elem, rows.from_dtype, n);
      store_row(to + d * rows.to_elem, rows.to_elem, rows.to_dtype, row.x, 1, n);
    }
  }
}

/// A whole row in f32, rotated from element `first` on where the rotation has pairs, and then in blocks.
template <fa_dtype from_dtype>
inline void load_rotated_row(float *to, const char *from, const TokenRows &rows, const Rotation &r,
                             const TokenRotation &rotation, int64_t first) {
  constexpr int64_t bytes = dtype_bytes(from_dtype);
  char *const pairs = reinterpret_cast<char *>(to + first);
  if (rows.from_elem == bytes && rotation.pairs > 0) {
    const int64_t behind = first + 2 * rotation.pairs;
    load_unit_row<from_dtype>(to, from, first);
    rotate_row<from_dtype, FA_F32>(from + first * bytes, pairs, r, rotation);
    load_unit_row<from_dtype>(to + behind, from + behind * bytes, rows.dim - behind);
  } else {
    load_row(to, from, rows.from_elem, from_dtype, rows.dim);
    if (rotation.pairs > 0) rotate_row<FA_F32, FA_F32>(pairs, pairs, r, rotation);
  }
  if (rotation.hadamard > 1) hadamard(to, rows.dim, rotation.hadamard);
}

/// Whole rows, rotated.
inline void rotate_whole_rows(const TokenRows &rows, const TokenRotation &rotation, int64_t first) {
  const Rotation r(rotation);
  RowBuffer row;
  with_type(rows.from_dtype, [&](auto type) {
    for (int64_t head = 0; head < rows.heads; head++) {
      load_rotated_row<decltype(type)::dtype>(row.x, rows.from + head * rows.from_head, rows, r, rotation, first);
      store_row(rows.to + head * rows.to_head, rows.to_elem, rows.to_dtype, row.x, 1, rows.dim);
    }
  });
}

/// Rows of 2 * pairs elements, rotated. `to` may be `from`.
inline void rotate_rows(const TokenRows &rows, const TokenRotation &rotation) {
  const Rotation r(rotation);
  const bool packed = rows.from_elem == dtype_bytes(rows.from_dtype) && rows.to_elem == dtype_bytes(rows.to_dtype);
  with_type(rows.from_dtype, [&](auto from_type) {
    with_compute_type(rows.to_dtype, [&](auto to_type) {
      RowBuffer row;
      for (int64_t head = 0; head < rows.heads; head++) {
        const char *const from = rows.from + head * rows.from_head;
        char *const to = rows.to + head * rows.to_head, *const copy = reinterpret_cast<char *>(row.x);
        if (packed) {
          rotate_row<decltype(from_type)::dtype, decltype(to_type)::dtype>(from, to, r, rotation);
        } else {
          load_row(row.x, from, rows.from_elem, rows.from_dtype, rows.dim);
          rotate_row<FA_F32, FA_F32>(copy, copy, r, rotation);
          store_row(to, rows.to_elem, rows.to_dtype, row.x, 1, rows.dim);
        }
      }
    });
  });
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
