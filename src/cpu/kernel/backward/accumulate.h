// The gradients that a query tile and a key tile accumulate, lanes = queries:
//   S = Q K^T;  dP = dO V^T;  P = exp(S - lse);  dS = P (dP - delta)
//   dV += P^T dO;  dK += dS^T Q;  dQ += dS K
// Scores are transposed, so that keys are operands in place; dQ is a sum of columns, dK and dV are sums of rows.
#pragma once

#include "cpu/kernel/backward/few_queries.h"
#include "cpu/kernel/backward/gemm.h"
#include "cpu/kernel/backward/p_ds.h"
#include "cpu/kernel/tile_products.h"
#include "cpu/masked.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Calls f(subtile, first, last) for the part of vectors [first, last) in each sub-tile.
template <class F>
inline void for_each_subtile(const Segment &g, const F &f) {
  for (int first = g.first; first < g.last;) {
    const int subtile = first / Simd::tile_vectors, last = smaller(g.last, (subtile + 1) * Simd::tile_vectors);
    f(subtile, first, last);
    first = last;
  }
}

/// A sub-tile's columns from vector v of the block on.
inline Vectors columns_from(const float *columns, int v) {
  return {columns + v % Simd::tile_vectors * width, lanes};
}

/// Products of keys, `dim` operands each, with columns.
inline void multiply_columns(const float *rows, int64_t dim, const Segment &g, const float *columns, int first,
                             int last, float *to) {
  const float *from = rows + g.begin * row_pitch(dim);
  const Vectors right = columns_from(columns, first);
  if constexpr (has_tiles) {
    tile_gemm<false>(natural_rows(from, row_pitch(dim)), g.end - g.begin, {right.data, right.pitch, 0}, last - first,
                     stored(dim), to, score_pitch);
  } else {
    gemm<false, false>({from, row_pitch(dim)}, g.end - g.begin, right, last - first, dim, to, score_pitch);
  }
}

/// S = Q K^T, dP = dO V^T of a segment.
inline void compute_s_dp(const TilePair &p, const StagedKeys &keys, const Segment &g) {
  const Attention &a = *p.queries.attention;
  const bool few = scored_by_decode(p.queries, p.keys.keys);
  if (few) compute_few_s(p, g);
  for_each_subtile(g, [&](int subtile, int first, int last) {
    if (!few)
      multiply_columns(keys.k, operands(a.head_dim), g, p.block.q_columns_of(subtile, a.head_dim), first, last,
                       p.score(g.begin, first));
    multiply_columns(keys.v, operands(a.head_dim_v), g, p.block.dout_columns_of(subtile, a.head_dim_v), first, last,
                     p.dscore(g.begin, first));
  });
}

/// dV += P^T dO or dK += dS^T Q: adds weights times rows of queries to rows of keys.
inline void accumulate_dkv(const Segment &g, float *weights, const float *rows, int64_t dim, float *sum) {
  // Where an operand is one element, weights have overwritten scores.
  constexpr int64_t pitch = Simd::pack == 1 ? score_pitch : by_queries_pitch;
  const int64_t first = operands(g.first * width), n = operands((g.last - g.first) * width);
  float *left = weights + g.begin * pitch + first;
  const float *right = rows + first * row_pitch(dim);
  if constexpr (has_tiles) {
    for (int k = 0; k < g.end - g.begin; k++)
      for (int64_t i = n; i < stored(n); i++) left[k * pitch + i] = 0;
    tile_gemm<true>(natural_rows(left, pitch), g.end - g.begin, {right, row_pitch(dim), 0}, dim / width, stored(n),
                    sum + g.begin * dim, dim);
  } else {
    gemm<false, true>({left, pitch}, g.end - g.begin, {right, row_pitch(dim)}, dim / width, n, sum + g.begin * dim,
                      dim);
  }
}

/// dQ += dS K.
inline void accumulate_dq(const TilePair &p, const StagedKeys &keys, const Segment &g) {
  const int64_t dim = p.queries.attention->head_dim, begin = operands(g.begin), n = operands(g.end - g.begin);
  const float *k = keys.dq_operands(p.keys.special);
  for_each_subtile(g, [&](int subtile, int first, int last) {
    float *dscores = p.scratch.dscores_by_keys + begin * score_pitch + first * width;
    float *sum = p.block.dq_of(subtile, dim) + first % Simd::tile_vectors * width;
    if constexpr (has_tiles) {
      for (int64_t i = n; i < stored(n); i++)
        for (int v = 0; v < last - first; v++) Simd::store(dscores + i * score_pitch + v * width, Simd::zero());
      tile_gemm<true>(packed_tiles(k + begin * stored(dim), stored(dim)), dim, {dscores, score_pitch, 0}, last - first,
                      stored(n), sum, lanes);
    } else {
      gemm<true, true>({k + begin * row_pitch(dim), row_pitch(dim)}, dim, {dscores, score_pitch}, last - first, n, sum,
                       lanes);
    }
  });
}

inline int find_segments_of_pair(const BackwardQueryTile &queries, const KeyTile &keys, const StagedQueries &block,
                                 Segment *segments) {
  return find_segments((queries.rows + width - 1) / width, block.low_of, block.high_of, keys.first, keys.n, segments);
}

inline void accumulate_gradients(const BackwardQueryTile &queries, const KeyTile &keys, void *memory) {
  const Attention &a = *queries.attention;
  const StagedQueries block(a, ScratchAllocator(behind(queries)));
  Segment segments[key_block / segment_keys];
  const int count = find_segments_of_pair(queries, keys, block, segments);
  if (count == 0 || block_masked(queries, 0, queries.rows, keys.first, keys.first + keys.n)) return;
  const StagedKeys key_rows(a, ScratchAllocator(behind(keys)));
  const BackwardScratch scratch(a, ScratchAllocator(memory));
  const ScoreMod modifiers(queries);
  const TilePair pairs = {queries, keys, block, modifiers, scratch, false};
  begin_tiles();
  for (int i = 0; i < count; i++) {
    const Segment &g = segments[i];
    compute_s_dp(pairs, key_rows, g);
    compute_p_ds(pairs, g);
    if (keys.dv.data != nullptr)
      accumulate_dkv(g, scratch.weights_by_queries, block.dout_rows, padded(a.head_dim_v), key_rows.dv);
    if (keys.dk.data != nullptr)
      accumulate_dkv(g, scratch.dscores_by_queries, block.q_rows, padded(a.head_dim), key_rows.dk);
    if (queries.gradient[0].dq != nullptr) accumulate_dq(pairs, key_rows, g);
  }
  end_tiles();
}

/// sum += dS, of the scores before the softcap or after it.
inline void sum_scores(const BackwardQueryTile &queries, const KeyTile &keys, bool before_softcap, float *sum,
                       void *memory) {
  const Attention &a = *queries.attention;
  const StagedQueries block(a, ScratchAllocator(behind(queries)));
  Segment segments[key_block / segment_keys];
  const int count = find_segments_of_pair(queries, keys, block, segments);
  const StagedKeys key_rows(a, ScratchAllocator(behind(keys)));
  const BackwardScratch scratch(a, ScratchAllocator(memory));
  const ScoreMod modifiers(queries);
  const TilePair pairs = {queries, keys, block, modifiers, scratch, !before_softcap};
  begin_tiles();
  for (int i = 0; i < count; i++) {
    const Segment &g = segments[i];
    compute_s_dp(pairs, key_rows, g);
    Vec ignored = Simd::zero();  // these gradients are summed without a range check
    for (int v = g.first; v < g.last; v++) {
      compute_p_ds_of_vector(pairs, v, g.begin, g.end, false, ignored);
      for (int k = g.begin; k < g.end; k++) {
        float *at = sum + k * block_lanes + v * width;
        Simd::store(at, Simd::add(Simd::load(at), Simd::load(pairs.dscore(k, v))));
      }
    }
  }
  end_tiles();
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
