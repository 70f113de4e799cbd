// Attention of a few query rows, lanes = elements of a row: for every block of keys
//   S = Q K^T;  m' = max(m, rowmax S);  P = exp2(c (S - m'));  l = l a + rowsum P;  O = O a + P V
//   where a = exp2(c (m - m'))
// Every key and value is read once, straight from memory, for all rows of its group. Scores are laid out as [key][row],
// so that a vector holds the pairs of width / rows keys.
#pragma once

#include "cpu/kernel/decode_cache.h"
#include "cpu/kernel/hadamard.h"
#include "cpu/kernel/scores.h"
#include "cpu/kernel/tree.h"
#include "cpu/masked.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Rows must be whole vectors. Not under FA_FLAG_BATCH_INVARIANT: a row's bits depend on the number of rows in its
/// group.
inline bool decode_supports(const Attention &a) {
  return !a.batch_invariant && a.head_dim % width == 0 && a.head_dim_v % width == 0;
}

inline size_t decode_scratch_bytes(const Attention &a, int rows) {
  const int64_t floats = rows * a.head_dim + decode_keys * group_rows + width + staged_floats(a);
  return static_cast<size_t>(rows) * sizeof(RowGroup) +  // rows may belong to as many heads
         static_cast<size_t>(floats) * sizeof(float) + 64;
}

/// Pads the scores of n keys with -inf to whole vectors.
template <int rows>
inline void pad_scores(int n, float *scores) {
  constexpr int keys = width / rows;
  for (int i = n * rows; i < (n + keys - 1) / keys * keys * rows; i++) scores[i] = -infinity;
}

/// The pairs of a vector of `rows` rows and width / rows keys.
template <int rows>
inline Pairs pairs_of(const RowGroup &g, int64_t key) {
  Pairs pairs;
  for (int i = 0; i < width; i++) {
    pairs.row[i] = smaller(g.first + i % rows, g.last);
    pairs.key[i] = key + i / rows;
  }
  return pairs;
}

/// Modifies and masks the scores of n keys.
template <int rows>
inline void finish_decode_scores(const QueryTile &tile, const RowGroup &g, const ScoreMod &m, int64_t key, int n,
                                 float *scores) {
  constexpr int keys = width / rows;
  const Lane lane = {g.low, g.high, g.position, g.position_overflow, g.slope};
  const Vec none = Simd::set1(-infinity);
  for (int j = 0; j < n; j += keys) {
    const int32_t at = static_cast<int32_t>(key + j);
    Vec x = Simd::load(scores + j * rows), bias = Simd::zero(), mask = Simd::zero();
    if (m.bias || m.mask) {
      alignas(64) float biases[width] = {}, masks[width] = {};
      const int used = smaller(width, (n - j) * rows);
      const auto row_of_lane = [&](int i) -> const QueryRow & { return group_row(tile, g, i % rows); };
      const auto key_of_lane = [&](int i) { return key + j + i / rows; };
      if (m.bias)
        with_compute_type(tile.bias_dtype, [&](auto type) {
          for (int i = 0; i < used; i++)
            biases[i] = load_element<decltype(type)::dtype>(row_of_lane(i).bias + key_of_lane(i) * tile.bias_elem);
        });
      if (m.mask)
        for (int i = 0; i < used; i++)
          masks[i] = row_of_lane(i).mask[key_of_lane(i) * tile.mask_elem] != 0 ? 1.0f : 0.0f;
      bias = Simd::load(biases);
      mask = Simd::load(masks);
    }
    const bool new_keys = reaches_new_keys(tile, key + j + keys);
    const bool by_depth = new_keys && m.alibi && tile.new_keys.depth != nullptr;
    alignas(64) float distances[width];
    if (by_depth) store_tree_distances(tile, pairs_of<rows>(g, key + j), distances);
    if (!m.plain) apply_score_mod(&x, 1, m, &bias, &mask, lane, at, nullptr, by_depth ? distances : nullptr);
    if (new_keys) x = in_tree(tile, pairs_of<rows>(g, key + j), x);
    Simd::store(scores + j * rows, Simd::select(Simd::between(lane.low, lane.high, at), x, none));
  }
}

/// A block's step of the online softmax: per lane the subtrahend of a score, per row the exponent c (m - m').
struct SoftmaxStep {
  alignas(64) float shift[width];
  alignas(64) float factor[width] = {};
};
static_assert(width >= group_rows);

/// Over `pairs` scores. While m is -inf, before any attended key, the subtrahend is 0.
template <int rows>
[[gnu::always_inline]] inline void update_row_max(RowGroup &g, const float *scores, int pairs, float scale,
                                                  SoftmaxStep &step) {
  Vec maximum = Simd::set1(-infinity);
  for (int i = 0; i < pairs; i += width) maximum = Simd::max(maximum, Simd::load(scores + i));
  alignas(64) float found[width];
  Simd::store(found, maximum);
  for (int r = 0; r < rows; r++) {
    float now = g.max[r];
    for (int i = r; i < width; i += rows) now = larger(now, found[i]);
    const float finite = now == -infinity ? 0.0f : now;
    step.factor[r] = (g.max[r] - finite) * scale;
    for (int i = r; i < width; i += rows) {
      g.max[i] = now;
      step.shift[i] = finite;
    }
  }
}

/// Weights take the place of scores; total[lane] is their sum.
[[gnu::always_inline]] inline void apply_exp2(float *scores, int pairs, float scale, const SoftmaxStep &step,
                                              float *total) {
  Vec sum = Simd::zero();
  for (int i = 0; i < pairs; i += width) {
    const Vec p = exp2(Simd::mul(Simd::sub(Simd::load(scores + i), Simd::load(step.shift)), Simd::set1(scale)));
    sum = Simd::add(sum, p);
    Simd::store(scores + i, p);
  }
  Simd::store(total, sum);
}

/// Rescales the row sums and adds `total`; stores a in alpha.
template <int rows>
[[gnu::always_inline]] inline void update_row_sum(RowGroup &g, const SoftmaxStep &step, const float *total,
                                                  Vec *alpha) {
  alignas(64) float factor[width];
  Simd::store(factor, exp2(Simd::load(step.factor)));
  for (int r = 0; r < rows; r++) {
    alpha[r] = Simd::set1(factor[r]);
    g.sum[r] *= factor[r];
    for (int i = r; i < width; i += rows) g.sum[r] += total[i];
  }
}

/// One block of keys for one group.
template <int rows>
inline void decode_block(const QueryTile &tile, RowGroup &g, const ScoreMod &m, const DecodeBlock &block, float *scores,
                         const Partial &partial) {
  const Attention &a = *tile.attention;
  const int n = block.rows.n, pairs = (n * rows + width - 1) / width * width;
  const float scale = m.scale_log2();

  decode_scores<rows>(tile, g, block, scores);  // S = Q K^T
  const bool whole = g.full_low <= block.first && g.full_high >= block.first + n;
  if (!m.plain || !whole) finish_decode_scores<rows>(tile, g, m, block.first, n, scores);
  pad_scores<rows>(n, scores);

  SoftmaxStep step;
  alignas(64) float total[width];
  Vec alpha[rows];
  update_row_max<rows>(g, scores, pairs, scale, step);  // m' = max(m, rowmax S)
  apply_exp2(scores, pairs, scale, step, total);        // P = exp2(c (S - m'))
  update_row_sum<rows>(g, step, total, alpha);          // l = l a + rowsum P

  float *values[rows];
  for (int r = 0; r < rows; r++) values[r] = partial.values + smaller(g.first + r, g.last) * a.head_dim_v;
  add_values<rows>(tile, g, block, scores, alpha, values);  // O = O a + P V
}

inline void decode_group(const QueryTile &tile, RowGroup &g, const ScoreMod &m, const DecodeBlock &block, float *scores,
                         const Partial &partial) {
  if (g.rows == 1) return decode_block<1>(tile, g, m, block, scores, partial);
  if (g.rows == 2) return decode_block<2>(tile, g, m, block, scores, partial);
  if constexpr (group_rows > 4)
    if (g.rows > 4) return decode_block<group_rows>(tile, g, m, block, scores, partial);
  return decode_block<4>(tile, g, m, block, scores, partial);
}

/// Processes keys [begin, end), a block at a time for all groups. Blocks that are masked for all rows are not read.
inline void decode_keys_of(const QueryTile &tile, RowGroup *group, int groups, const ScoreMod &m, int64_t begin,
                           int64_t end, float *scores, Staging staging, const Partial &partial) {
  const Attention &a = *tile.attention;
  const KeyStream &s = tile.keys;
  const int step = keys_of_block(bytes_of_key(tile, staging));
  const auto block_end = [&](int64_t key) { return smaller<int64_t>(key + step - key % step, end); };
  const auto attended = [&](int64_t key) {  // the first block from key on that is
    while (key < end && block_masked(tile, 0, tile.rows, key, block_end(key))) key = block_end(key);
    return key;
  };
  const int64_t k_bytes = (tile.heads - 1) * s.k.head + k_row_bytes(tile);
  const int64_t v_bytes = (tile.heads - 1) * s.v.head + row_bytes(s.v.dtype, a.head_dim_v);
  int64_t key = attended(begin);
  KvBlock rows(s, key, larger(key, block_end(key)));
  while (key < end) {
    const int64_t next = attended(block_end(key));
    const KvBlock following(s, next, block_end(next));
    // The values of one head are prefetched just before their use; those of many heads would be evicted before it.
    const KvBlock &prefetched = tile.heads == 1 ? rows : following;
    Prefetcher keys(following.key, following.n, k_bytes), values(prefetched.value, prefetched.n, v_bytes);
    staging.k.head = staging.v.head = -1;
    for (int i = 0; i < groups; i++)
      decode_group(tile, group[i], m, {rows, key, keys, values, staging}, scores, partial);
    rows = following;
    key = next;
  }
}

inline void decode_partial(const QueryTile &tile, int64_t begin, int64_t end, const Partial &partial, void *memory) {
  const Attention &a = *tile.attention;
  const ScoreMod modifiers(tile);
  const int head_rows = tile.rows / tile.heads;
  const int groups = tile.heads * group_count(head_rows);
  auto *group = static_cast<RowGroup *>(memory);
  float *q = reinterpret_cast<float *>(group + groups);
  float *scores = q + tile.rows * a.head_dim;
  const Staging staging(tile, scores + decode_keys * group_rows + width);
  const bool k_paired = in_pairs(a.kv_dtype) && staging.k.rows == nullptr;
  const bool v_paired = in_pairs(a.v_dtype) && staging.v.rows == nullptr;

  int32_t low = INT32_MAX, high = 0;
  for (int i = 0; i < tile.rows; i++) {
    load_query(q + i * a.head_dim, tile.row[i].q, tile);
    if (k_paired) to_pair_order(q + i * a.head_dim, a.head_dim, false);
    for (int64_t d = 0; d < a.head_dim_v; d++) partial.values[i * a.head_dim_v + d] = 0;
    if (tile.row[i].low == tile.row[i].high) continue;
    low = smaller(low, tile.row[i].low);
    high = larger(high, tile.row[i].high);
  }
  RowGroup *next_group = group;
  for (int head = 0; head < tile.heads; head++)
    for (int r = 0; r < head_rows; r += rows_of_group(head_rows - r))
      begin_group(tile, *next_group++, head, head * head_rows + r, (head + 1) * head_rows, q);

  begin = larger<int64_t>(begin, low);
  end = smaller<int64_t>(end, high);
  decode_keys_of(tile, group, groups, modifiers, begin, end, scores, staging, partial);

  for (int i = 0; i < groups; i++) {
    const RowGroup &g = group[i];
    for (int r = g.first; r <= smaller(g.last, g.first + g.rows - 1); r++) {
      partial.max[r] = g.max[r - g.first] * modifiers.score_scale();
      partial.sum[r] = g.sum[r - g.first];
      if (v_paired) to_pair_order(partial.values + r * a.head_dim_v, a.head_dim_v, true);
    }
  }
}

constexpr Microkernel decode_microkernel = {
    .tile_rows = Simd::decode_rows,
    .max_rows = Simd::decode_rows,
    .many_tiles = false,
    .max_heads = 128,
    .max_rows_of_heads = 128,
    .any_stride = false,
    .finite_values = false,
    .supports = decode_supports,
    .scratch_bytes = decode_scratch_bytes,
    .compute_partial = decode_partial,
    .compute_output = nullptr,
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
