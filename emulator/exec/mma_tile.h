// The product of small tiles of floats, which all tensor core instructions come down to.
//
// Elements of f16, bf16, tf32 and all 8-bit formats have at most 11 bits of mantissa: their products are exact in f32,
// so that a fused multiply-add gives the same bits as a multiplication and an addition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __FMA__
#include <immintrin.h>
#endif

namespace fa::emu {

typedef float Float8 __attribute__((vector_size(32)));

inline Float8 load8(const float *from) {
  Float8 value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline void store8(float *to, Float8 value) {
  std::memcpy(to, &value, sizeof value);
}

/// a * b + c, fused where the machine can.
inline Float8 multiply_add(float a, Float8 b, Float8 c) {
#ifdef __FMA__
  return reinterpret_cast<Float8>(
      _mm256_fmadd_ps(_mm256_set1_ps(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}

/// Four rows of c, 8 * vectors columns.
template <int vectors>
inline void multiply_rows(float *c, size_t c_pitch, const float *a, size_t a_pitch, const float *b, size_t b_pitch,
                          uint32_t depth, bool accumulate) {
  Float8 sum[4][vectors];
  for (int row = 0; row < 4; row++)
    for (int v = 0; v < vectors; v++)
      sum[row][v] = accumulate ? load8(c + static_cast<size_t>(row) * c_pitch + 8 * v) : Float8{};
  for (uint32_t k = 0; k < depth; k++) {
    Float8 of_b[vectors];
    for (int v = 0; v < vectors; v++) of_b[v] = load8(b + k * b_pitch + 8 * v);
    for (int row = 0; row < 4; row++) {
      float one = a[static_cast<size_t>(row) * a_pitch + k];
      for (int v = 0; v < vectors; v++) sum[row][v] = multiply_add(one, of_b[v], sum[row][v]);
    }
  }
  for (int row = 0; row < 4; row++)
    for (int v = 0; v < vectors; v++) store8(c + static_cast<size_t>(row) * c_pitch + 8 * v, sum[row][v]);
}

#ifdef __AVX512F__
/// Four rows of c, 32 columns, in vectors twice as wide: the same sums.
inline void multiply_rows_wide(float *c, size_t c_pitch, const float *a, size_t a_pitch, const float *b, size_t b_pitch,
                               uint32_t depth, bool accumulate) {
  __m512 sum[4][2];
  for (size_t row = 0; row < 4; row++)
    for (size_t v = 0; v < 2; v++)
      sum[row][v] = accumulate ? _mm512_loadu_ps(c + row * c_pitch + 16 * v) : _mm512_setzero_ps();
  for (uint32_t k = 0; k < depth; k++) {
    __m512 of_b[2] = {_mm512_loadu_ps(b + k * b_pitch), _mm512_loadu_ps(b + k * b_pitch + 16)};
    for (size_t row = 0; row < 4; row++) {
      __m512 one = _mm512_set1_ps(a[row * a_pitch + k]);
      for (size_t v = 0; v < 2; v++) sum[row][v] = _mm512_fmadd_ps(one, of_b[v], sum[row][v]);
    }
  }
  for (size_t row = 0; row < 4; row++)
    for (size_t v = 0; v < 2; v++) _mm512_storeu_ps(c + row * c_pitch + 16 * v, sum[row][v]);
}
#endif

/// c = a b, or c += a b. a: rows x depth, b: depth x columns, c: rows x columns, all row by row with pitches in floats;
/// rows is a multiple of 4, columns of 8.
inline void multiply_tile(float *c, size_t c_pitch, const float *a, size_t a_pitch, const float *b, size_t b_pitch,
                          uint32_t rows, uint32_t columns, uint32_t depth, bool accumulate) {
  for (uint32_t row = 0; row < rows; row += 4) {
    float *c_row = c + row * c_pitch;
    const float *a_row = a + row * a_pitch;
    uint32_t column = 0;
#ifdef __AVX512F__
    for (; column + 32 <= columns; column += 32)
      multiply_rows_wide(c_row + column, c_pitch, a_row, a_pitch, b + column, b_pitch, depth, accumulate);
#endif
    for (; column + 16 <= columns; column += 16)
      multiply_rows<2>(c_row + column, c_pitch, a_row, a_pitch, b + column, b_pitch, depth, accumulate);
    if (column < columns)
      multiply_rows<1>(c_row + column, c_pitch, a_row, a_pitch, b + column, b_pitch, depth, accumulate);
  }
}

/// Rows and columns of 8 x 8 floats change places.
inline void transpose8(const float *from, size_t from_pitch, float *to, size_t to_pitch) {
  Float8 row[8], pair[8], quad[8];
  for (size_t i = 0; i < 8; i++) row[i] = load8(from + i * from_pitch);
  for (int i = 0; i < 8; i += 2) {
    pair[i] = __builtin_shufflevector(row[i], row[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pair[i + 1] = __builtin_shufflevector(row[i], row[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) {
      quad[i + 2 * j] = __builtin_shufflevector(pair[i + j], pair[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      quad[i + 2 * j + 1] = __builtin_shufflevector(pair[i + j], pair[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (size_t i = 0; i < 4; i++) {
    store8(to + i * to_pitch, __builtin_shufflevector(quad[i], quad[i + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    store8(to + (i + 4) * to_pitch, __builtin_shufflevector(quad[i], quad[i + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

}  // namespace fa::emu
