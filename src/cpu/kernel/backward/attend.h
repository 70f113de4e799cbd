// What a tile of queries and a tile of keys add to each other's gradients, lanes = queries:
//   S = Q K^T;  dP = dO V^T;  P = exp(S - lse);  dS = P (dP - delta)
//   dV += P^T dO;  dK += dS^T Q;  dQ += dS K
// Scores are transposed, so that keys are operands as they stand; dQ is a sum of columns, dK and dV are sums of rows.
#pragma once

#include "cpu/kernel/backward/few.h"
#include "cpu/kernel/backward/multiply.h"
#include "cpu/kernel/backward/weigh.h"
#include "cpu/masked.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Calls f(subtile, first, last) for the parts of vectors [first, last) that lie in a sub-tile each.
template <class F>
inline void over_subtiles(const Segment &g, const F &f) {
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

/// S = Q K^T, dP = dO V^T of a segment.
inline void score_pairs(const Pairs &p, const KeyBlock &keys, const Segment &g) {
  const Attention &a = *p.queries.attention;
  const int64_t dim = operands(a.head_dim), dim_v = operands(a.head_dim_v);
  const bool few = scored_by_decode(p.queries, p.keys.keys);
  if (few) score_few(p, g);
  over_subtiles(g, [&](int subtile, int first, int last) {
    if (!few)
      multiply<false, false>({keys.k + g.begin * row_pitch(dim), row_pitch(dim)}, g.end - g.begin,
                             columns_from(p.block.q_columns_of(subtile, a.head_dim), first), last - first, dim,
                             p.score(g.begin, first), score_pitch);
    multiply<false, false>({keys.v + g.begin * row_pitch(dim_v), row_pitch(dim_v)}, g.end - g.begin,
                           columns_from(p.block.dout_columns_of(subtile, a.head_dim_v), first), last - first, dim_v,
                           p.dscore(g.begin, first), score_pitch);
  });
}

/// Adds weights times rows of queries to the rows of keys: dV += P^T dO, dK += dS^T Q.
inline void add_to_keys(const Segment &g, const float *weights, const float *rows, int64_t dim, float *sum) {
  // Where an operand is one element, weights have taken the place of scores.
  constexpr int64_t pitch = Simd::pack == 1 ? score_pitch : by_queries_pitch;
  const int64_t first = operands(g.first * width);
  multiply<false, true>({weights + g.begin * pitch + first, pitch}, g.end - g.begin,
                        {rows + first * row_pitch(dim), row_pitch(dim)}, dim / width,
                        operands((g.last - g.first) * width), sum + g.begin * dim, dim);
}

/// dQ += dS K.
inline void add_to_queries(const Pairs &p, const KeyBlock &keys, const Segment &g) {
  const int64_t dim = p.queries.attention->head_dim, begin = operands(g.begin);
  const float *k = keys.dq_operands(p.keys.special) + begin * row_pitch(dim);
  over_subtiles(g, [&](int subtile, int first, int last) {
    multiply<true, true>({k, row_pitch(dim)}, dim,
                         {p.scratch.dscores_by_keys + begin * score_pitch + first * width, score_pitch}, last - first,
                         operands(g.end - g.begin), p.block.dq_of(subtile, dim) + first % Simd::tile_vectors * width,
                         lanes);
  });
}

inline int cut_pairs(const QueryTile &queries, const KeyTile &keys, const QueryBlock &block, Segment *segments) {
  return cut((queries.rows + width - 1) / width, block.low_of, block.high_of, keys.first, keys.n, segments);
}

inline void attend_gradients(const QueryTile &queries, const KeyTile &keys, void *memory) {
  const Attention &a = *queries.attention;
  const QueryBlock block(a, Carver(behind(queries)));
  Segment segments[key_block / segment_keys];
  const int count = cut_pairs(queries, keys, block, segments);
  if (count == 0 || block_masked(queries, 0, queries.rows, keys.first, keys.first + keys.n)) return;
  const KeyBlock key_rows(a, Carver(behind(keys)));
  const BackwardScratch scratch(a, Carver(memory));
  const Modifiers modifiers(queries);
  const Pairs pairs = {queries, keys, block, modifiers, scratch, false};
  for (int i = 0; i < count; i++) {
    const Segment &g = segments[i];
    score_pairs(pairs, key_rows, g);
    weigh_segment(pairs, g);
    if (keys.dv.data != nullptr)
      add_to_keys(g, scratch.weights_by_queries, block.dout_rows, padded(a.head_dim_v), key_rows.dv);
    if (keys.dk.data != nullptr)
      add_to_keys(g, scratch.dscores_by_queries, block.q_rows, padded(a.head_dim), key_rows.dk);
    if (queries.gradient[0].dq != nullptr) add_to_queries(pairs, key_rows, g);
  }
}

/// sum += dS, of the scores before the softcap or after it.
inline void sum_scores(const QueryTile &queries, const KeyTile &keys, bool before_softcap, float *sum, void *memory) {
  const Attention &a = *queries.attention;
  const QueryBlock block(a, Carver(behind(queries)));
  Segment segments[key_block / segment_keys];
  const int count = cut_pairs(queries, keys, block, segments);
  const KeyBlock key_rows(a, Carver(behind(keys)));
  const BackwardScratch scratch(a, Carver(memory));
  const Modifiers modifiers(queries);
  const Pairs pairs = {queries, keys, block, modifiers, scratch, !before_softcap};
  for (int i = 0; i < count; i++) {
    const Segment &g = segments[i];
    score_pairs(pairs, key_rows, g);
    Vec ignored = Simd::zero();  // these gradients are summed as they are
    for (int v = g.first; v < g.last; v++) {
      weigh_vector(pairs, v, g.begin, g.end, false, ignored);
      for (int k = g.begin; k < g.end; k++) {
        float *at = sum + k * block_lanes + v * width;
        Simd::store(at, Simd::add(Simd::load(at), Simd::load(pairs.dscore(k, v))));
      }
    }
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
