// A block of keys or values as f32 rows: in place where they already are, else copied and converted.
#pragma once

namespace fa::cpu::FA_ISA {
namespace {

struct Rows {
  const float *data;
  int64_t pitch;  // in floats
};

/// True when rows j .. j + n - 1 stand at one stride in memory.
inline bool evenly_spaced(const KeyStream &s, int64_t j, int64_t n) {
  return s.pages == nullptr || (s.first + j) / s.page_size == (s.first + j + n - 1) / s.page_size;
}

inline Rows stage_keys(const KeyStream &s, int64_t j, int64_t n, int64_t dim, float *buffer) {
  if (s.dtype == FA_F32 && s.k_elem == 4 && evenly_spaced(s, j, n))
    return {reinterpret_cast<const float *>(key_row(s, j)), s.k_row / 4};
  for (int64_t i = 0; i < n; i++) load_row(buffer + i * dim, key_row(s, j + i), s.k_elem, s.dtype, dim);
  return {buffer, dim};
}
inline Rows stage_values(const Tile &tile, int64_t j, int64_t n, int64_t dim, float *buffer) {
  const KeyStream &s = tile.keys;
  if (s.dtype == FA_F32 && s.v_elem == 4 && evenly_spaced(s, j, n) && !tile.finite_values_only)
    return {reinterpret_cast<const float *>(value_row(s, j)), s.v_row / 4};
  for (int64_t i = 0; i < n; i++) load_row(buffer + i * dim, value_row(s, j + i), s.v_elem, s.dtype, dim);
  if (tile.finite_values_only)
    for (int64_t i = 0; i < n * dim; i++) buffer[i] = buffer[i] - buffer[i] == 0 ? buffer[i] : 0;
  return {buffer, dim};
}

/// Floats of staging that one block may need.
inline int64_t staging_floats(const Attention &a) { return key_block * (a.head_dim + a.head_dim_v); }

}  // namespace
}  // namespace fa::cpu::FA_ISA
