// Attention of a tile of query rows, lanes = queries (Dao, FlashAttention-2, 2023, with scores transposed): for every
// block of keys
//   S = Q K^T;  m' = max(m, rowmax S);  P = exp2(c (S - m'));  l = l a + rowsum P;  O = O a + P V
//   where a = exp2(c (m - m'))
// c (S - m') makes the largest weight exactly 1, however large S is, which fma(c, S, -c m') would not. Nothing crosses
// lanes, so a row's bits do not depend on its neighbours.
#pragma once

#include "cpu/kernel/columns.h"
#include "cpu/kernel/keys.h"
#include "cpu/kernel/macros.h"
#include "cpu/kernel/scores.h"
#include "cpu/kernel/segments.h"
#include "cpu/kernel/tree.h"
#include "cpu/masked.h"

namespace fa::cpu::FA_ISA {
namespace {

struct PrefillScratch {
  SubTile sub[Simd::subtiles];
  float *scores;  // [key_block][lanes]
  float *staging;
  float *rows;  // [lanes][the larger head dim], for transposing
};

inline bool prefill_supports(const Attention &) {
  return true;
}

inline size_t prefill_scratch_bytes(const Attention &a, int rows) {
  const int64_t subtiles = (rows + lanes - 1) / lanes;
  const int64_t floats = subtiles * lanes * (stored(a.head_dim) + stored(a.head_dim_v) + 7) + key_block * lanes +
                         staging_floats(a) + width * (larger_dim(a) + width);
  return sizeof(PrefillScratch) + 64 + static_cast<size_t>(floats) * sizeof(float);
}

inline PrefillScratch *carve(const QueryTile &tile, void *memory) {
  const Attention &a = *tile.attention;
  auto *s = static_cast<PrefillScratch *>(memory);
  float *next = reinterpret_cast<float *>(static_cast<char *>(memory) + (sizeof(PrefillScratch) + 63) / 64 * 64);
  const auto take = [&](int64_t floats) {
    float *at = next;
    next += floats;
    return at;
  };
  s->scores = take(key_block * lanes);
  for (int i = 0; i * lanes < tile.rows; i++) {
    SubTile &t = s->sub[i];
    t.q = take(stored(a.head_dim) * lanes);
    t.out = take(stored(a.head_dim_v) * lanes);
    t.max = take(lanes);
    t.sum = take(lanes);
    t.position_overflow = take(lanes);
    t.slope = take(lanes);
    t.low = reinterpret_cast<int32_t *>(take(lanes));
    t.high = reinterpret_cast<int32_t *>(take(lanes));
    t.position = reinterpret_cast<int32_t *>(take(lanes));
  }
  s->staging = take(staging_floats(a));
  s->rows = take(width * (larger_dim(a) + width));
  return s;
}

/// Fills a sub-tile from its rows. Lanes beyond the last row repeat it and are never stored.
inline void begin_subtile(const QueryTile &tile, SubTile &t, int first_row, int vectors, float *rows) {
  t.first_row = first_row;
  t.vectors = vectors;
  transpose_queries(tile, t, rows);
  for (int v = 0; v < t.vectors; v++) {
    t.low_of[v] = t.full_high[v] = INT32_MAX;
    t.high_of[v] = t.full_low[v] = INT32_MIN;
    for (int i = v * width; i < (v + 1) * width; i++) {
      const QueryRow &row = tile.row[smaller(first_row + i, tile.rows - 1)];
      t.low[i] = row.low;
      t.high[i] = row.high;
      t.position[i] = row.position;
      t.position_overflow[i] = row.position_overflow;
      t.slope[i] = row.slope;
      t.max[i] = -infinity;
      t.sum[i] = 0;
      if (row.low < row.high) {
        t.low_of[v] = smaller(t.low_of[v], row.low);
        t.high_of[v] = larger(t.high_of[v], row.high);
      }
      t.full_low[v] = larger(t.full_low[v], row.low);
      t.full_high[v] = smaller(t.full_high[v], row.high);
    }
    t.full_high[v] = smaller(t.full_high[v], tile.new_keys.first);
  }
  const int64_t used = t.vectors * width;
  for (int64_t d = 0; d < stored(tile.attention->head_dim_v); d++)
    for (int64_t i = 0; i < used; i += width) Simd::store(t.out + d * lanes + i, Simd::zero());
}

/// The pairs of a vector of queries and a key.
inline Pairs pairs_of(const QueryTile &tile, int first_row, int64_t key) {
  Pairs pairs;
  for (int i = 0; i < width; i++) {
    pairs.row[i] = smaller(first_row + i, tile.rows - 1);
    pairs.key[i] = key;
  }
  return pairs;
}

/// Modifies and masks the scores of one vector of queries and n <= width keys from key + k on; returns their maximum.
/// Inlined where n is a constant, so that the scores stay in registers. new_keys: some are of a tree.
template <bool new_keys>
[[gnu::always_inline]] inline Vec finish_scores(const QueryTile &tile, const SubTile &t, const ScoreMod &m,
                                                float *scores, int v, int64_t key, int k, int n, bool whole) {
  const Lane lane = {t.low + v * width, t.high + v * width, t.position + v * width, t.position_overflow + v * width,
                     t.slope + v * width};
  const Vec none = Simd::set1(-infinity);
  const int32_t j = static_cast<int32_t>(key + k);
  Vec maximum = none, x[width], bias[width], mask[width];
  for (int i = 0; i < n; i++) x[i] = Simd::load(scores + (k + i) * lanes + v * width);
  if (!m.plain) {
    if (m.bias) load_bias(bias, tile, t.first_row + v * width, j, n);
    if (m.mask) load_mask(mask, tile, t.first_row + v * width, j, n);
    if constexpr (new_keys) {
      const bool by_depth = m.alibi && tile.new_keys.depth != nullptr;
      alignas(64) float distances[width * width];
      for (int i = 0; by_depth && i < n; i++)
        store_tree_distances(tile, pairs_of(tile, t.first_row + v * width, j + i), distances + i * width);
      apply_score_mod(x, n, m, bias, mask, lane, j, nullptr, by_depth ? distances : nullptr);
    } else {
      apply_score_mod(x, n, m, bias, mask, lane, j);
    }
  }
  if (!whole)
    for (int i = 0; i < n; i++) x[i] = Simd::select(Simd::between(lane.low, lane.high, j + i), x[i], none);
  if constexpr (new_keys)
    for (int i = 0; i < n; i++) x[i] = in_tree(tile, pairs_of(tile, t.first_row + v * width, j + i), x[i]);
  for (int i = 0; i < n; i++) {
    Simd::store(scores + (k + i) * lanes + v * width, x[i]);
    maximum = Simd::max(maximum, x[i]);
  }
  return maximum;
}

/// The same for keys [begin, end) of a block that reaches the new keys of a tree: out of the way of all others.
[[gnu::noinline]] inline Vec finish_new_keys(const QueryTile &tile, const SubTile &t, const ScoreMod &m, float *scores,
                                             int v, int64_t key, int begin, int end) {
  Vec maximum = Simd::set1(-infinity);
  for (int k = begin; k < end; k++)
    maximum = Simd::max(maximum, finish_scores<true>(tile, t, m, scores, v, key, k, 1, false));
  return maximum;
}

/// The same for any keys [begin, end) of a block.
inline Vec finish_vector(const QueryTile &tile, const SubTile &t, const ScoreMod &m, float *scores, int v, int64_t key,
                         int begin, int end, bool whole) {
  if (reaches_new_keys(tile, key + end)) return finish_new_keys(tile, t, m, scores, v, key, begin, end);
  Vec maximum = Simd::set1(-infinity);
  int k = begin;
  for (; k + width <= end; k += width)
    maximum = Simd::max(maximum, finish_scores<false>(tile, t, m, scores, v, key, k, width, whole));
  if (k < end) maximum = Simd::max(maximum, finish_scores<false>(tile, t, m, scores, v, key, k, end - k, whole));
  return maximum;
}

/// Adds the maxima of a block of 2 x 2 tiles of scores, as far as these have keys.
inline void add_maxima(const float *scores, int64_t first_key, int64_t keys, int64_t first, int64_t vectors,
                       Vec *maxima) {
  const int64_t end = smaller<int64_t>(first_key + 2 * tile_rows, keys);
  for (int64_t v = first; v < smaller<int64_t>(first + 2, vectors); v++) {
    Vec found[2] = {maxima[v], maxima[v]};
    int64_t k = first_key;
    for (; k + 2 <= end; k += 2) {
      found[0] = Simd::max(found[0], Simd::load(scores + k * lanes + v * width));
      found[1] = Simd::max(found[1], Simd::load(scores + (k + 1) * lanes + v * width));
    }
    if (k < end) found[0] = Simd::max(found[0], Simd::load(scores + k * lanes + v * width));
    maxima[v] = Simd::max(found[0], found[1]);
  }
}

/// S = Q K^T of one segment, and its maxima.
inline void score_segment(const QueryTile &tile, const SubTile &t, const ScoreMod &m, const Rows &keys, int64_t key,
                          const Segment &g, float *scores, Vec *maxima) {
  Vec found[Simd::tile_vectors];
  for (int v = 0; v < Simd::tile_vectors; v++) found[v] = Simd::set1(-infinity);
  const float *rows = keys.data + g.begin * keys.pitch, *q = t.q + g.first * width;
  const int64_t dim = stored(operands(tile.attention->head_dim));
  float *to = scores + g.begin * lanes + g.first * width;
  with_count(g.last - g.first, [&](auto count) {
    constexpr int vectors = decltype(count)::value;
    if constexpr (has_tiles) {
      tile_gemm<false>(natural_rows(rows, keys.pitch), g.end - g.begin, q, lanes, vectors, dim, to, lanes, NoWork(),
                       [&](int64_t r, int64_t first) {
                         if (m.plain) add_maxima(to, r * tile_rows, g.end - g.begin, first, vectors, found);
                       });
    } else if constexpr (vectors <= Simd::tile_vectors) {
      gemm_qk<vectors>(rows, keys.pitch, g.end - g.begin, q, dim, to, found);
    }
  });
  for (int v = g.first; v < g.last; v++) {
    const bool whole = t.full_low[v] <= key + g.begin && t.full_high[v] >= key + g.end;
    if (!m.plain || !whole) {
      found[v - g.first] = finish_vector(tile, t, m, scores, v, key, g.begin, g.end, whole);
    }
    maxima[v] = Simd::max(maxima[v], found[v - g.first]);
  }
}

/// P = exp2(c (S - m)) for one segment; adds to the row sums. Operands of weights overwrite scores that have been read.
template <int vectors>
inline void apply_exp2(const float *scores, int keys, Vec scale, const Vec *max, Vec *sum, float *weights) {
  Vec total[vectors], maximum[vectors];
  FA_UNROLL for (int v = 0; v < vectors; v++) {
    total[v] = sum[v];
    maximum[v] = max[v];
  }
  const auto weight = [&](int k, int v) {
    const Vec p = exp2(Simd::mul(Simd::sub(Simd::load(scores + k * lanes + v * width), maximum[v]), scale));
    total[v] = Simd::add(total[v], p);
    return p;
  };
  for (int k = 0; k < keys; k += Simd::pack) FA_UNROLL for (int v = 0; v < vectors; v++) {
      const Vec first = weight(k, v);
      const Vec second = Simd::pack == 1 ? first : k + 1 < keys ? weight(k + 1, v) : Simd::zero();
      Simd::store(weights + k / Simd::pack * lanes + v * width, make_operands(first, second));
    }
  FA_UNROLL for (int v = 0; v < vectors; v++) sum[v] = total[v];
}

/// O = O a for dims [begin, end) and vectors [first, last), where a row's maximum has changed.
inline void rescale(float *out, const Vec *alpha, const bool *changed, int64_t begin, int64_t end, int64_t first,
                    int64_t last) {
  for (int64_t v = first; v < last; v++) {
    if (!changed[v]) continue;
    for (int64_t d = begin; d < end; d++) {
      float *at = out + d * lanes + v * width;
      Simd::store(at, Simd::mul(Simd::load(at), alpha[v]));
    }
  }
}

inline bool any_changed(Vec alpha) {
  alignas(64) float factor[width];
  Simd::store(factor, alpha);
  bool changed = false;
  for (const float f : factor) changed = changed || f != 1;
  return changed;
}

/// One block of keys for one sub-tile.
inline void prefill_block(const QueryTile &tile, SubTile &t, const ScoreMod &m, const Rows &keys, const Rows &values,
                          int64_t key, int n, float *scores) {
  Segment segments[key_block / segment_keys];
  const int count = find_segments(t.vectors, t.low_of, t.high_of, key, n, segments);
  if (count == 0) return;

  constexpr int vectors = Simd::tile_vectors;
  Vec maxima[vectors], alpha[vectors], finite[vectors], sum[vectors];
  for (int v = 0; v < vectors; v++) maxima[v] = Simd::set1(-infinity);
  for (int i = 0; i < count; i++) score_segment(tile, t, m, keys, key, segments[i], scores, maxima);

  const Vec scale = Simd::set1(m.scale_log2());
  for (int v = 0; v < t.vectors; v++) {
    const Vec before = Simd::load(t.max + v * width);
    const Vec now = Simd::max(before, maxima[v]);
    finite[v] = Simd::select(Simd::equal(now, Simd::set1(-infinity)), Simd::zero(), now);
    alpha[v] = exp2(Simd::mul(Simd::sub(before, finite[v]), scale));
    sum[v] = Simd::zero();
    Simd::store(t.max + v * width, now);
  }
  for (int i = 0; i < count; i++) {
    const Segment &g = segments[i];
    with_count(g.last - g.first, [&](auto active) {
      if constexpr (decltype(active)::value <= vectors)
        apply_exp2<decltype(active)::value>(scores + g.begin * lanes + g.first * width, g.end - g.begin, scale,
                                            finite + g.first, sum + g.first,
                                            scores + operands(g.begin) * lanes + g.first * width);
    });
  }
  for (int v = 0; v < t.vectors; v++) {
    float *at = t.sum + v * width;
    Simd::store(at, Simd::fma(Simd::load(at), alpha[v], sum[v]));
  }

  const int64_t dim = tile.attention->head_dim_v;
  Vec one[vectors];
  for (int v = 0; v < vectors; v++) one[v] = Simd::set1(1.0f);
  const bool fold = segments[0].first == 0 && segments[0].last == t.vectors;
  bool changed[vectors] = {};
  for (int v = 0; v < t.vectors; v++) changed[v] = any_changed(alpha[v]);
  if (!fold) rescale(t.out, alpha, changed, 0, dim, 0, t.vectors);
  for (int i = 0; i < count; i++) {
    const Segment &g = segments[i];
    const Vec *factor = fold && i == 0 ? alpha : one;
    float *weights = scores + operands(g.begin) * lanes + g.first * width, *out = t.out + g.first * width;
    with_count(g.last - g.first, [&](auto active) {
      constexpr int columns = decltype(active)::value;
      if constexpr (has_tiles) {
        const int used = operands(g.end - g.begin), whole = static_cast<int>(stored(used));
        for (int k = used; k < whole; k++)
          for (int v = 0; v < columns; v++) Simd::store(weights + k * lanes + v * width, Simd::zero());
        const float *of_segment = values.data + operands(g.begin) * stored(dim);
        tile_gemm<true>(packed_tiles(of_segment, stored(dim)), dim, weights, lanes, columns, whole, out, lanes,
                        [&](int64_t r, int64_t v) {
                          if (fold && i == 0)
                            rescale(out, alpha, changed, r * tile_rows, smaller((r + 2) * tile_rows, stored(dim)), v,
                                    smaller<int64_t>(v + 2, columns));
                        });
      } else if constexpr (columns <= vectors) {
        gemm_pv<columns>(values.data + operands(g.begin) * values.pitch, values.pitch, weights,
                         operands(g.end - g.begin), dim, out, factor);
      }
    });
  }
}

/// Computes the partial softmax over keys [begin, end) in the sub-tiles. Returns their number.
inline int prefill_tile(const QueryTile &tile, const ScoreMod &modifiers, int64_t begin, int64_t end,
                        PrefillScratch *s) {
  const Attention &a = *tile.attention;
  begin_tiles();
  int32_t low = INT32_MAX, high = 0;
  // Vectors are distributed evenly: a product of a single vector waits for its operands.
  int vectors = (tile.rows + width - 1) / width, first_row = 0;
  const int subtiles = (vectors + Simd::tile_vectors - 1) / Simd::tile_vectors;
  for (int i = 0; i < subtiles; i++) {
    SubTile &t = s->sub[i];
    const int share = (vectors + subtiles - i - 1) / (subtiles - i);
    begin_subtile(tile, t, first_row, share, s->rows);
    vectors -= share;
    first_row += share * width;
    for (int v = 0; v < t.vectors; v++) {
      low = smaller(low, t.low_of[v]);
      high = larger(high, t.high_of[v]);
    }
  }
  begin = larger<int64_t>(begin, low / key_block * key_block);
  end = smaller<int64_t>(end, high);
  for (int64_t key = begin; key < end; key += key_block) {
    const int n = static_cast<int>(smaller<int64_t>(key_block, end - key));
    Rows keys = {}, values = {};
    for (int i = 0; i < subtiles; i++) {
      SubTile &t = s->sub[i];
      if (block_masked(tile, t.first_row, t.vectors * width, key, key + n)) continue;
      if (keys.data == nullptr) {
        keys = stage_keys(tile.keys, key, n, a.head_dim, s->staging);
        values = stage_values(tile, key, n, a.head_dim_v, s->staging + key_block * stored(a.head_dim));
      }
      prefill_block(tile, t, modifiers, keys, values, key, n, s->scores);
    }
  }
  end_tiles();
  return subtiles;
}

inline void prefill_partial(const QueryTile &tile, int64_t begin, int64_t end, const Partial &partial, void *memory) {
  PrefillScratch *s = carve(tile, memory);
  const ScoreMod modifiers(tile);
  const int subtiles = prefill_tile(tile, modifiers, begin, end, s);
  for (int i = 0; i < subtiles; i++) store_partial(tile, s->sub[i], modifiers.score_scale(), partial);
}

inline bool prefill_output(const QueryTile &tile, int64_t keys, void *memory) {
  const Attention &a = *tile.attention;
  if (tile.out_elem != dtype_bytes(a.out_dtype) || a.hadamard_v > 1) return false;
  PrefillScratch *s = carve(tile, memory);
  const ScoreMod modifiers(tile);
  const int subtiles = prefill_tile(tile, modifiers, 0, keys, s);
  bool finite = true;
  for (int i = 0; i < subtiles; i++) finite = store_results(tile, s->sub[i], modifiers.score_scale()) && finite;
  return finite;
}

constexpr Microkernel prefill_microkernel = {
    .tile_rows = Simd::subtiles * lanes,
    .many_tiles = true,
    .many_heads = false,
    .any_stride = true,
    .supports = prefill_supports,
    .scratch_bytes = prefill_scratch_bytes,
    .compute_partial = prefill_partial,
    .compute_output = prefill_output,
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
