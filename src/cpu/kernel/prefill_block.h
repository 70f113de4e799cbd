// A block of keys for one sub-tile, in three stages: scores and their maxima, weights, values.
#pragma once

#include "cpu/kernel/columns.h"
#include "cpu/kernel/keys.h"
#include "cpu/kernel/macros.h"
#include "cpu/kernel/scores.h"
#include "cpu/kernel/segments.h"
#include "cpu/kernel/tree.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Keys of a block.
constexpr int prefill_keys = has_tiles ? max_key_block : key_block;

/// A block of keys and a sub-tile, and their state between the stages.
struct Block {
  SubTile *t;
  float *scores;  // [prefill_keys][lanes]; weights overwrite them
  int64_t key;
  int n;
  Segment segments[prefill_keys / segment_keys];
  int count;
  Vec finite[Simd::tile_vectors];  // the rows' maxima, 0 where these are -infinity
  Vec alpha[Simd::tile_vectors];   // the factors of earlier weights
  Vec sum[Simd::tile_vectors];     // of the block's weights
  bool changed[Simd::tile_vectors];
};

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

/// The head dimension from which on a score does without products of second parts: these are at most 64 u of it
/// (u = 2^-24), products of tiles are off by 17 + 3/32 dims u, scale and bias by 16 u, and its bound has dims + 16.
constexpr int64_t max_products_dim = 96;

/// S = Q K^T of one segment, and its maxima.
template <class Alongside>
inline void score_segment(const QueryTile &tile, const ScoreMod &m, const Rows &keys, const Block &block,
                          const Segment &g, Vec *maxima, const Alongside &alongside) {
  const SubTile &t = *block.t;
  Vec found[Simd::tile_vectors];
  for (int v = 0; v < Simd::tile_vectors; v++) found[v] = Simd::set1(-infinity);
  const float *rows = keys.data + g.begin * keys.pitch, *q = t.q + g.first * width;
  const int64_t dim = stored(operands(tile.attention->head_dim));
  float *to = block.scores + g.begin * lanes + g.first * width;
  with_count(g.last - g.first, [&](auto count) {
    constexpr int vectors = decltype(count)::value;
    if constexpr (has_tiles) {
      const auto multiply = [&](auto products) {
        tile_gemm<false, decltype(products)::value>(
            natural_rows(rows, keys.pitch), g.end - g.begin, {q, operand_pitch, lanes}, vectors, dim, to, lanes,
            NoWork(),
            [&](int64_t r, int64_t first) {
              if (m.plain) add_maxima(to, r * tile_rows, g.end - g.begin, first, vectors, found);
            },
            alongside);
      };
      if (Simd::parts == 1 || tile.attention->head_dim >= max_products_dim) {
        multiply(Constant<PartProducts::large>());
      } else {
        multiply(Constant<PartProducts::all>());
      }
    } else if constexpr (vectors <= Simd::tile_vectors) {
      gemm_qk<vectors>(rows, keys.pitch, g.end - g.begin, q, dim, to, found);
    }
  });
  for (int v = g.first; v < g.last; v++) {
    const bool whole = t.full_low[v] <= block.key + g.begin && t.full_high[v] >= block.key + g.end;
    if (!m.plain || !whole)
      found[v - g.first] = finish_vector(tile, t, m, block.scores, v, block.key, g.begin, g.end, whole);
    maxima[v] = Simd::max(maxima[v], found[v - g.first]);
  }
}

inline bool any_changed(Vec alpha) {
  alignas(64) float factor[width];
  Simd::store(factor, alpha);
  bool changed = false;
  for (const float f : factor) changed = changed || f != 1;
  return changed;
}

/// The first stage: scores of a block, and the maxima of rows.
template <class Alongside>
inline void compute_scores(const QueryTile &tile, const ScoreMod &m, const Rows &keys, Block &block,
                           const Alongside &alongside) {
  const SubTile &t = *block.t;
  Vec maxima[Simd::tile_vectors];
  for (int v = 0; v < Simd::tile_vectors; v++) maxima[v] = Simd::set1(-infinity);
  for (int i = 0; i < block.count; i++) score_segment(tile, m, keys, block, block.segments[i], maxima, alongside);
  const Vec scale = Simd::set1(m.scale_log2());
  for (int v = 0; v < t.vectors; v++) {
    const Vec before = Simd::load(t.max + v * width);
    const Vec now = Simd::max(before, maxima[v]);
    block.finite[v] = Simd::select(Simd::equal(now, Simd::set1(-infinity)), Simd::zero(), now);
    block.alpha[v] = exp2(Simd::mul(Simd::sub(before, block.finite[v]), scale));
    block.changed[v] = any_changed(block.alpha[v]);
    block.sum[v] = Simd::zero();
    Simd::store(t.max + v * width, now);
  }
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

/// P = exp2(c (S - m)) for some keys of one segment; adds to the row sums. Operands of weights overwrite scores that
/// have been read.
template <int vectors>
[[gnu::always_inline]] inline void apply_exp2(const float *scores, int keys, Vec scale, const Vec *max, Vec *sum,
                                              float *weights) {
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
      store_operands(weights + k / Simd::pack * operand_pitch + v * width, first, second);
    }
  FA_UNROLL for (int v = 0; v < vectors; v++) sum[v] = total[v];
}

/// The second stage. Where products are those of tiles, it advances next to these: a row of operands at a time.
class Exponentials {
 public:
  Exponentials(const ScoreMod &m, Block *block) : block_(block), scale_(Simd::set1(m.scale_log2())) { begin_segment(); }

  [[gnu::always_inline]] void advance() {
    if (key_ + Simd::pack > end_ || !all_vectors_) return advance_slowly();
    apply<Simd::tile_vectors>(0, Simd::pack);
    key_ += Simd::pack;
  }

  void finish() {
    while (segment_ < block_->count) finish_segment(end_);
    for (int v = 0; v < block_->t->vectors; v++) {
      float *at = block_->t->sum + v * width;
      Simd::store(at, Simd::fma(Simd::load(at), block_->alpha[v], block_->sum[v]));
    }
  }

 private:
  void begin_segment() {
    if (segment_ == block_->count) return;
    const Segment &g = block_->segments[segment_];
    key_ = g.begin;
    end_ = g.end;
    all_vectors_ = g.last - g.first == Simd::tile_vectors;
  }

  [[gnu::noinline]] void advance_slowly() {
    if (segment_ < block_->count) finish_segment(smaller(key_ + Simd::pack, end_));
  }

  /// Keys up to end.
  void finish_segment(int end) {
    const Segment &g = block_->segments[segment_];
    with_count(g.last - g.first, [&](auto vectors) {
      if constexpr (decltype(vectors)::value <= Simd::tile_vectors)
        apply<decltype(vectors)::value>(g.first, end - key_);
    });
    key_ = end;
    if (key_ < end_) return;
    segment_++;
    begin_segment();
  }

  template <int vectors>
  [[gnu::always_inline]] void apply(int first, int keys) {
    apply_exp2<vectors>(block_->scores + key_ * lanes + first * width, keys, scale_, block_->finite + first,
                        block_->sum + first, block_->scores + operands(key_) * operand_pitch + first * width);
  }

  Block *block_;
  Vec scale_;
  int segment_ = 0, key_ = 0, end_ = 0;
  bool all_vectors_ = false;
};

/// Operands 0 for keys that pad a segment of n to whole tiles.
inline void pad_weights(float *weights, int64_t n, int vectors) {
  for (int64_t k = Simd::parts * operands(n); k < Simd::parts * stored(operands(n)); k++)
    for (int v = 0; v < vectors; v++) Simd::store(weights + k * lanes + v * width, Simd::zero());
}

/// The third stage: O = O a + P V, transposed: a row of O for each dim.
template <class Alongside>
inline void add_values(const QueryTile &tile, const Rows &values, const Block &block, const Alongside &alongside) {
  constexpr int vectors = Simd::tile_vectors;
  const SubTile &t = *block.t;
  const int64_t dim = tile.attention->head_dim_v;
  Vec one[vectors];
  for (int v = 0; v < vectors; v++) one[v] = Simd::set1(1.0f);
  const bool fold = block.segments[0].first == 0 && block.segments[0].last == t.vectors;
  if (!fold) rescale(t.out, block.alpha, block.changed, 0, dim, 0, t.vectors);
  for (int i = 0; i < block.count; i++) {
    const Segment &g = block.segments[i];
    float *weights = block.scores + operands(g.begin) * operand_pitch + g.first * width, *out = t.out + g.first * width;
    with_count(g.last - g.first, [&](auto active) {
      constexpr int columns = decltype(active)::value;
      if constexpr (has_tiles) {
        pad_weights(weights, g.end - g.begin, columns);
        const float *of_segment = values.data + Simd::parts * operands(g.begin) * stored(dim);
        tile_gemm<true, PartProducts::large>(
            packed_tiles(of_segment, stored(dim)), dim, {weights, operand_pitch, lanes}, columns,
            stored(operands(g.end - g.begin)), out, lanes,
            [&](int64_t r, int64_t v) {
              if (fold && i == 0)
                rescale(out, block.alpha, block.changed, r * tile_rows, smaller((r + 2) * tile_rows, stored(dim)), v,
                        smaller<int64_t>(v + 2, columns));
            },
            NoWork(), alongside);
      } else if constexpr (columns <= vectors) {
        gemm_pv<columns>(values.data + operands(g.begin) * values.pitch, values.pitch, weights,
                         operands(g.end - g.begin), dim, out, fold && i == 0 ? block.alpha : one);
      }
    });
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
