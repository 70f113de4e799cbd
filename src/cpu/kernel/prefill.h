// Attention of a tile of query rows, lanes = queries (Dao, FlashAttention-2, 2023, with scores transposed): for every
// block of keys
//   S = Q K^T;  m' = max(m, rowmax S);  P = exp2(c (S - m'));  l = l a + rowsum P;  O = O a + P V
//   where a = exp2(c (m - m'))
// c (S - m') makes the largest weight exactly 1, however large S is, which fma(c, S, -c m') would not. Nothing crosses
// lanes, so a row's bits do not depend on its neighbours.
#pragma once

#include "cpu/kernel/prefill_block.h"
#include "cpu/masked.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Blocks that are under way.
constexpr int prefill_blocks = has_tiles ? 3 : 1;

struct PrefillScratch {
  SubTile sub[Simd::max_subtiles];
  float *scores;         // [prefill_blocks][prefill_keys][lanes]
  float *keys, *values;  // a block of each, staged
  float *rows;           // of queries or of values, for transposing
};

template <class S = Simd>
constexpr int64_t transposed_floats(const Attention &a) {
  const int64_t of_queries = width * (larger_dim(a) + width);
  if constexpr (HasTiles<S>) return larger(of_queries, value_rows_floats<S>(a.head_dim_v));
  return of_queries;
}

inline bool prefill_supports(const Attention &) {
  return true;
}

inline size_t prefill_scratch_bytes(const Attention &a, int rows) {
  const int64_t subtiles = (rows + lanes - 1) / lanes;
  const int64_t floats = subtiles * lanes * (row_floats(a.head_dim) + stored(a.head_dim_v) + 7) +
                         prefill_blocks * prefill_keys * lanes + prefill_keys * row_floats(a.head_dim) +
                         row_floats(prefill_keys) * stored(a.head_dim_v) + transposed_floats(a);
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
  s->scores = take(prefill_blocks * prefill_keys * lanes);
  for (int i = 0; i * lanes < tile.rows; i++) {
    SubTile &t = s->sub[i];
    t.q = take(row_floats(a.head_dim) * lanes);
    t.out = take(stored(a.head_dim_v) * lanes);
    t.max = take(lanes);
    t.sum = take(lanes);
    t.position_overflow = take(lanes);
    t.slope = take(lanes);
    t.low = reinterpret_cast<int32_t *>(take(lanes));
    t.high = reinterpret_cast<int32_t *>(take(lanes));
    t.position = reinterpret_cast<int32_t *>(take(lanes));
  }
  s->keys = take(prefill_keys * row_floats(a.head_dim));
  s->values = take(row_floats(prefill_keys) * stored(a.head_dim_v));
  s->rows = take(transposed_floats(a));
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

/// Takes blocks through their stages. Where products are those of tiles, the weights of a block are computed next to
/// the scores of the one after and the values of the one before: the units of both have work. A row's sums keep their
/// order.
class Stages {
 public:
  Stages(const QueryTile &tile, const ScoreMod &m, PrefillScratch *s) : tile_(tile), m_(m), s_(s) {}

  void add(SubTile &t, int64_t key, int n) {
    Block &block = blocks_[begun_ % prefill_blocks];
    block.t = &t;
    block.scores = s_->scores + begun_ % prefill_blocks * prefill_keys * lanes;
    block.key = key;
    block.n = n;
    block.count = find_segments(t.vectors, t.low_of, t.high_of, key, n, block.segments);
    if (block.count == 0) return;
    if (has_tiles) {
      advance(begun_ > 0 ? &before(1) : nullptr, begun_ > 1 ? &before(2) : nullptr, &block);
    } else {
      advance(nullptr, nullptr, &block);
      advance(&block, nullptr, nullptr);
      advance(nullptr, &block, nullptr);
    }
    begun_++;
  }

  void finish() {
    if (!has_tiles || begun_ == 0) return;
    advance(&before(1), begun_ > 1 ? &before(2) : nullptr, nullptr);
    advance(nullptr, &before(1), nullptr);
  }

 private:
  Block &before(int64_t n) { return blocks_[(begun_ - n) % prefill_blocks]; }

  /// A stage of each block that is given.
  void advance(Block *weights, Block *values, Block *scores) {
    if (weights == nullptr) return multiply(values, scores, NoWork());
    Exponentials exponentials(m_, weights);
    multiply(values, scores, [&] { exponentials.advance(); });
    exponentials.finish();
  }

  template <class Alongside>
  void multiply(const Block *values, Block *scores, const Alongside &alongside) {
    const Attention &a = *tile_.attention;
    if (scores != nullptr) {
      if (scores->key != key_of_keys_) keys_ = stage_keys(tile_.keys, scores->key, scores->n, a.head_dim, s_->keys);
      key_of_keys_ = scores->key;
      compute_scores(tile_, m_, keys_, *scores, alongside);
    }
    if (values != nullptr) {
      if (values->key != key_of_values_)
        values_ = stage_values(tile_, values->key, values->n, a.head_dim_v, s_->values, s_->rows);
      key_of_values_ = values->key;
      add_values(tile_, values_, *values, alongside);
    }
  }

  const QueryTile &tile_;
  const ScoreMod &m_;
  PrefillScratch *s_;
  Block blocks_[prefill_blocks];
  int64_t begun_ = 0;
  Rows keys_ = {}, values_ = {};
  int64_t key_of_keys_ = -1, key_of_values_ = -1;
};

/// Computes the partial softmax over keys [begin, end) in the sub-tiles. Returns their number.
inline int prefill_tile(const QueryTile &tile, const ScoreMod &modifiers, int64_t begin, int64_t end,
                        PrefillScratch *s) {
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
  // Blocks begin where those of other tiles do: a row's bits do not depend on its tile.
  begin += larger<int64_t>(low - begin, 0) / prefill_keys * prefill_keys;
  end = smaller<int64_t>(end, high);
  Stages stages(tile, modifiers, s);
  for (int64_t key = begin; key < end; key += prefill_keys) {
    const int n = static_cast<int>(smaller<int64_t>(prefill_keys, end - key));
    for (int i = 0; i < subtiles; i++) {
      SubTile &t = s->sub[i];
      if (!block_masked(tile, t.first_row, t.vectors * width, key, key + n)) stages.add(t, key, n);
    }
  }
  stages.finish();
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
    .max_rows = Simd::max_subtiles * lanes,
    .many_tiles = true,
    .many_heads = false,
    .any_stride = true,
    .finite_scores_only = Simd::parts > 1,  // Inf is not the sum of its parts
    .supports = prefill_supports,
    .scratch_bytes = prefill_scratch_bytes,
    .compute_partial = prefill_partial,
    .compute_output = prefill_output,
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
