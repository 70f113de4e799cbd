// Scores of few queries, computed as decode computes them: p = exp(x - lse) is sensitive to the order of summation
// within a score, and lse is most often that of the forward pass on the same machine.
#pragma once

#include "cpu/kernel/backward/p_ds.h"
#include "cpu/kernel/decode.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Whether the forward pass takes decode for a tile's rows, as far as q, k and v alone decide.
inline bool scored_by_decode(const BackwardQueryTile &queries, const KeyStream &keys) {
  const int64_t bytes = dtype_bytes(keys.k.dtype);
  return queries.head_rows <= Simd::decode_rows && decode_supports(*queries.attention) && keys.k.element == bytes &&
         keys.v.element == bytes;
}

/// Scores of rows [first, first + n), n <= rows, with keys [begin, end), decode_keys at most.
template <int rows, fa_dtype dtype>
inline void compute_few_s_of_keys(const TilePair &p, const float *const *q, int first, int n, int begin, int end) {
  alignas(64) float scores[decode_keys * rows + width], lane[width];
  const KvBlock block(p.keys.keys, p.keys.first + begin, p.keys.first + end);
  RowGroup group{};
  for (int r = 0; r < rows; r++) group.q[r] = q[smaller(r, n - 1)];
  Prefetcher nothing(nullptr, 0, 0);
  decode_qk<rows, dtype>({block.key, 0, block.n}, group, p.queries.attention->head_dim, 0, nothing, scores);
  for (int key = begin; key < end; key++) {
    Simd::store(lane, first == 0 ? Simd::zero() : Simd::load(p.score(key, 0)));
    for (int r = 0; r < n; r++) lane[first + r] = scores[(key - begin) * rows + r];
    Simd::store(p.score(key, 0), Simd::load(lane));
  }
}

/// S = Q K^T of a segment, whose queries are one vector of it.
inline void compute_few_s(const TilePair &p, const Segment &g) {
  const Attention &a = *p.queries.attention;
  const float *q[group_rows];
  for (int first = 0; first < p.queries.rows; first += group_rows) {
    const int n = smaller(group_rows, p.queries.rows - first);
    for (int r = 0; r < n; r++) {
      float *row = p.scratch.rows + r * BackwardScratch::staging_pitch(a);
      load_row(row, p.queries.row[first + r].q, p.queries.q_elem, a.q_dtype, a.head_dim);
      if (in_pairs(a.kv_dtype)) to_pair_order(row, a.head_dim, false);
      q[r] = row;
    }
    with_type(a.kv_dtype, [&](auto type) {
      constexpr fa_dtype dtype = decltype(type)::dtype;
      for (int k = g.begin; k < g.end; k += decode_keys) {
        const int end = smaller(g.end, k + decode_keys);
        if (n == 1) {
          compute_few_s_of_keys<1, dtype>(p, q, first, n, k, end);
        } else if (n == 2) {
          compute_few_s_of_keys<2, dtype>(p, q, first, n, k, end);
        } else if (n <= 4) {
          compute_few_s_of_keys<4, dtype>(p, q, first, n, k, end);
        } else {
          compute_few_s_of_keys<group_rows, dtype>(p, q, first, n, k, end);
        }
      }
    });
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
