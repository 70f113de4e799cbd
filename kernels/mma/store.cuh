// From sums to results: O / l, lse, partial results of a split; and the mending of what masked values have spoiled.
#pragma once

#include "common/repair.cuh"
#include "mma/scores.cuh"
#include "mma/softmax.cuh"

namespace fa::kernels::mma {

constexpr float ln_2 = 0.693147181f;

/// True when a lane's part of a row holds NaN or Inf.
template <class B>
__device__ inline bool any_nonfinite(const Sums (&o)[B::out_blocks], int h) {
  float zero = 0;
#pragma unroll
  for (int j = 0; j < B::out_blocks; j++) zero = fmaf(o[j].x[2 * h], 0.f, fmaf(o[j].x[2 * h + 1], 0.f, zero));
  return zero != 0;
}

/// Calls f(column, element) for each of a lane's elements of a row.
template <class B, class F>
__device__ inline void for_each_column(const Sums (&o)[B::out_blocks], int h, int columns, F f) {
#pragma unroll
  for (int j = 0; j < B::out_blocks; j++) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int d = j * 8 + threadIdx.x % 4 * 2 + e;
      if (d < columns) f(d, o[j].x[2 * h + e]);
    }
  }
}

/// Divides a row's sums by l, the sink included, and writes its lse.
template <class B>
__device__ inline void finish_row(const Params &p, const Work &w, Row row, Sums (&o)[B::out_blocks], int h, float m,
                                  float l) {
  float a = l == 0 ? 0 : 1 / l, lse = l == 0 ? minus_infinity : (m + __log2f(l)) * ln_2;
  if (p.sinks.data) {
    const float sink = *reinterpret_cast<const float *>(p.sinks.data + w.sequence.index * p.sinks.stride[0] +
                                                        row.head * p.sinks.stride[1]);
    const float x = sink * log2_e, top = fmaxf(m, x);
    const float total = l * exp2_fast(m - top) + exp2_fast(x - top);
    if (l == 0) {
      lse = sink;
    } else {
      a = exp2_fast(m - top) / total, lse = (top + __log2f(total)) * ln_2;
    }
  }
#pragma unroll
  for (int j = 0; j < B::out_blocks; j++) o[j].x[2 * h] *= a, o[j].x[2 * h + 1] *= a;
  if (p.lse.data && threadIdx.x % 4 == 0)
    *reinterpret_cast<float *>(p.lse.data + w.sequence.q_batch * p.lse.stride[0] + row.head * p.lse.stride[1] +
                               (w.sequence.q_first + row.query) * p.lse.stride[2]) = lse;
}

__device__ inline char *out_row(const Params &p, const Work &w, Row row) {
  return p.out.data + w.sequence.q_batch * p.out.stride[0] + (w.sequence.q_first + row.query) * p.out.stride[1] +
         row.head * p.out.stride[2];
}

/// Writes a warp's rows in whole chunks, by way of its part of the tile of queries.
template <class B>
__device__ inline void store_chunks(const Params &p, const Work &w, const typename B::Out &o, uint32_t tile) {
  using Tile = typename B::QueryTile;
  constexpr int chunks = B::dim / 8;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < B::row_blocks; i++)
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int j = 0; j < B::out_blocks; j++)
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(tile + Tile::offset(lane_tile_row<B>(i, h), j) + lane % 4 * 4),
                     "r"(pack(o[i][j].x[2 * h], o[i][j].x[2 * h + 1], typename B::Element()))
                     : "memory");
  __syncwarp();
#pragma unroll 1
  for (int i = lane; i < B::warp_rows * chunks; i += 32) {
    const int r = threadIdx.x / 32 * B::warp_rows + i / chunks, chunk = i % chunks;
    if (w.first_row + r < w.rows && chunk * 8 < p.head_dim_v)
      *reinterpret_cast<uint4 *>(out_row(p, w, row_at(p, w, w.first_row + r)) + chunk * 16) =
          load_chunk(tile + Tile::offset(r, chunk));
  }
}

/// Writes a lane's part of a row, an element at a time.
template <class B>
__device__ inline void store_elements(const Params &p, char *to, const Sums (&o)[B::out_blocks], int h) {
  for_each_column<B>(o, h, p.head_dim_v,
                     [&](int d, float x) { store_element(to + d * p.out.stride[3], p.out_dtype, x); });
}

/// A row's unfinished softmax: m, l and the sums.
template <class B>
__device__ inline void store_partial(const Params &p, const Work &w, int r, const Sums (&o)[B::out_blocks], int h,
                                     float m, float l) {
  const int64_t at = w.split * p.partial_rows + w.place * B::rows + r;
  if (threadIdx.x % 4 == 0)
    *reinterpret_cast<float2 *>(p.partial_max_sum + at * 2) = {l == 0 ? minus_infinity : m, l};
  for_each_column<B>(o, h, p.head_dim_v, [&](int d, float x) { p.partial_values[at * p.head_dim_v + d] = x; });
}

/// Writes what a block has found. Returns a bit for each of this lane's rows that masked values have spoiled: the caller
/// then comes again with `mend`, those rows, and the sums of finite values.
template <class B>
__device__ inline uint32_t store(const Params &p, const Kept<B> &kept, typename B::Out &o, Softmax<B> &state,
                                 uint32_t tile, uint32_t mend) {
  const Work &w = kept.work;
  const bool partial = B::splits && p.schedule.num_splits > 1;
  const bool chunks = !partial && mend == 0 && p.out_dtype == B::dtype &&
                      (B::plain || (has_aligned_rows(p.out) && p.head_dim_v % 8 == 0));
  uint32_t spoiled = 0;
#pragma unroll
  for (int i = 0; i < B::row_blocks; i++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int r = lane_tile_row<B>(i, h);
      const float m = state.m[i][h], l = row_sum(state.l[i][h]);
      const bool exists = w.first_row + r < w.rows;
      const Row row = row_at(p, w, exists ? w.first_row + r : w.first_row);
      if (!partial && exists) finish_row<B>(p, w, row, o[i], h, m, l);
      if (!exists) continue;
      if (mend >> (2 * i + h) & 1) {
        char *const to = out_row(p, w, row);
        const int64_t at = w.split * p.partial_rows + w.place * B::rows + r;
        for_each_column<B>(o[i], h, p.head_dim_v, [&](int d, float x) {
          if (explained(p, w, row, kept.attended[r], d)) return;
          if (partial) {
            p.partial_values[at * p.head_dim_v + d] = x;
          } else {
            store_element(to + d * p.out.stride[3], p.out_dtype, x);
          }
        });
      } else if (mend == 0) {
        if (is_finite(l) && any_nonfinite<B>(o[i], h)) spoiled |= 1u << (2 * i + h);
        if (partial) {
          store_partial<B>(p, w, r, o[i], h, m, l);
        } else if (!chunks) {
          store_elements<B>(p, out_row(p, w, row), o[i], h);
        }
      }
    }
  }
  if (chunks) store_chunks<B>(p, w, o, tile);
  return spoiled;
}

}  // namespace fa::kernels::mma
