// Stores final gradients from the workspace: scaled, rounded once, stored or accumulated.
#pragma once

#include "cpu/kernel/backward/stage.h"

namespace fa::cpu::FA_ISA {
namespace {

/// The n elements at to = factor * from[0, n), or += where they are f32.
inline void put_row(char *to, int64_t stride, fa_dtype dtype, bool add, const float *from, float factor, int64_t n) {
  if (!add) return store_row(to, stride, dtype, from, factor, n);
  for (int64_t i = 0; i < n; i++) {
    char *at = to + i * stride;
    store_element<FA_F32>(at, load_element<FA_F32>(at) + from[i] * factor);
  }
}

inline void store_queries(const BackwardQueryTile &tile, void *scratch) {
  const Attention &a = *tile.attention;
  const StagedQueries block(a, ScratchAllocator(behind(tile)));
  const BackwardScratch s(a, ScratchAllocator(scratch));
  const int64_t pitch = BackwardScratch::staging_pitch(a);
  char *rows[width];
  for (int i = 0; i < width; i++) rows[i] = reinterpret_cast<char *>(s.rows + i * pitch);
  for (int v = 0; v * width < tile.rows; v++) {
    const int n = smaller(width, tile.rows - v * width);
    const float *columns = block.dq_of(v / Simd::tile_vectors, a.head_dim) + v % Simd::tile_vectors * width;
    for (int i = 0; i < n; i++) prefetch_row<true>(tile.gradient[v * width + i].dq, tile.dq_dtype, a.head_dim);
    Vec ignored = Simd::zero();
    store_rows<FA_F32>(columns, Simd::set1(1.0f), a.head_dim, rows, n, ignored);
    for (int i = 0; i < n; i++)
      put_row(tile.gradient[v * width + i].dq, tile.dq_elem, tile.dq_dtype, tile.add_dq, s.rows + i * pitch, a.scale,
              a.head_dim);
  }
}

inline void store_keys(const KeyTile &tile) {
  const Attention &a = *tile.attention;
  const StagedKeys block(a, ScratchAllocator(behind(tile)));
  const auto put = [&](const CacheRows &to, fa_dtype dtype, bool add, const float *from, float factor, int64_t dim) {
    if (to.data == nullptr) return;
    for (int i = 0; i < tile.n; i++) {
      if (i + prefetch_distance < tile.n)
        prefetch_row<true>(row_of(to, Pages(), tile.first + i + prefetch_distance), dtype, dim);
      put_row(row_of(to, Pages(), tile.first + i), to.element, dtype, add, from + i * padded(dim), factor, dim);
    }
  };
  put(tile.dk, tile.dk_dtype, tile.add_dk, block.dk, a.scale, a.head_dim);
  put(tile.dv, tile.dv_dtype, tile.add_dv, block.dv, 1, a.head_dim_v);
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
