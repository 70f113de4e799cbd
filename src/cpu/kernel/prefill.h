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

/// The maximum number of heads of a tile: several only on an ISA with tiles.
template <class S>
constexpr int tile_heads = HasTiles<S> ? 8 : 1;

struct PrefillScratch {
  QueryTile head[tile_heads<Simd>];
  SubTile sub[larger(Simd::max_subtiles, tile_heads<Simd>)];
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

/// Sub-tiles of `heads` heads that have `rows` rows together.
constexpr int subtiles_of(int rows, int heads) {
  return (rows / heads + lanes - 1) / lanes * heads;
}

inline size_t scratch_bytes_of(const Attention &a, int64_t subtiles) {
  const int64_t floats = subtiles * lanes * (row_floats(a.head_dim) + stored(a.head_dim_v) + 7) +
                         prefill_blocks * prefill_keys * lanes + prefill_keys * row_floats(a.head_dim) +
                         row_floats(prefill_keys) * stored(a.head_dim_v) + transposed_floats(a);
  return sizeof(PrefillScratch) + 64 + static_cast<size_t>(floats) * sizeof(float);
}

inline size_t prefill_scratch_bytes(const Attention &a, int rows) {
  return scratch_bytes_of(a, subtiles_of(rows, 1));
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
  for (int i = 0; i < subtiles_of(tile.rows, tile.heads); i++) {
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

/// O^T = V^T P^T: a row of O for each dim, and values as prefill_block.h has them.
struct ByDims {
  static constexpr int block_keys = prefill_keys;

  static void clear(const SubTile &t, int64_t dim) {
    for (int64_t d = 0; d < stored(dim); d++)
      for (int v = 0; v < t.vectors; v++) Simd::store(t.out + d * lanes + v * width, Simd::zero());
  }

  static Rows stage(const QueryTile &tile, int64_t key, int n, int64_t dim, float *buffer, float *rows) {
    return stage_values(tile, key, n, dim, buffer, rows);
  }

  template <class Alongside>
  static void add(const QueryTile &tile, const Rows &values, const Block &block, const Alongside &alongside) {
    add_values(tile, values, block, alongside);
  }

  static void finish(SubTile &, int64_t, float *) {}
};

/// Fills a sub-tile from its rows. Lanes beyond the last row repeat it and are never stored.
inline void begin_subtile(const QueryTile &tile, SubTile &t, int first_row, int vectors, float *rows) {
  t.tile = &tile;
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
}

/// Reads rows j .. j + n - 1 of all heads of a tile, whole ones, if they are to be converted: few reads of single rows
/// would be under way at a time, and software prefetch does not wait for addresses to be translated.
inline void read_ahead(const QueryTile &tile, const CacheRows &rows, int64_t j, int64_t n, int64_t dim) {
  if (Simd::parts == 1 || tile.heads == 1) return;
  const int64_t bytes = (tile.heads - 1) * rows.head + row_bytes(rows.dtype, dim);
  for (int64_t i = j; i < j + n; i++)
    for (const char *row = row_of(rows, tile.keys.pages, i), *line = row; line < row + bytes; line += 64)
      asm volatile("" ::"r"(*reinterpret_cast<const volatile char *>(line)));
}

/// Takes blocks through their stages. Where products are those of tiles, the weights of a block are computed next to
/// the scores of the one after and the values of the one before: the units of both have work. A row's sums keep their
/// order.
template <class Values>
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
    if (scores != nullptr) {
      const QueryTile &tile = *scores->t->tile;
      const int64_t dim = tile.attention->head_dim;
      if (!keys_.are(*scores)) {
        if (&tile == s_->head) read_ahead(tile_, tile.keys.k, scores->key, scores->n, dim);
        keys_ = {stage_keys(tile.keys, scores->key, scores->n, dim, s_->keys), &tile, scores->key};
      }
      compute_scores(tile, m_, keys_.rows, *scores, alongside);
    }
    if (values != nullptr) {
      const QueryTile &tile = *values->t->tile;
      const int64_t dim = tile.attention->head_dim_v;
      if (!values_.are(*values)) {
        if (&tile == s_->head) read_ahead(tile_, tile.keys.v, values->key, values->n, dim);
        values_ = {Values::stage(tile, values->key, values->n, dim, s_->values, s_->rows), &tile, values->key};
      }
      Values::add(tile, values_.rows, *values, alongside);
    }
  }

  /// A block of keys or values, staged.
  struct Staged {
    Rows rows = {};
    const QueryTile *tile = nullptr;
    int64_t key = 0;

    bool are(const Block &block) const { return tile == block.t->tile && key == block.key; }
  };

  const QueryTile &tile_;
  const ScoreMod &m_;
  PrefillScratch *s_;
  Block blocks_[prefill_blocks];
  int64_t begun_ = 0;
  Staged keys_, values_;
};

/// Computes the partial softmax over keys [begin, end) in the sub-tiles. Returns their number.
template <class Values>
inline int prefill_tile(const QueryTile &tile, const ScoreMod &modifiers, int64_t begin, int64_t end,
                        PrefillScratch *s) {
  begin_tiles();
  int32_t low = INT32_MAX, high = 0;
  const int subtiles = subtiles_of(tile.rows, tile.heads), of_a_head = subtiles / tile.heads;
  for (int head = 0; head < tile.heads; head++) {
    s->head[head] = tile_of_head(tile, head);
    // Vectors are distributed evenly: a product of a single vector waits for its operands.
    int vectors = (tile.rows / tile.heads + width - 1) / width, first_row = 0;
    for (int i = 0; i < of_a_head; i++) {
      SubTile &t = s->sub[head * of_a_head + i];
      const int share = (vectors + of_a_head - i - 1) / (of_a_head - i);
      begin_subtile(s->head[head], t, first_row, share, s->rows);
      Values::clear(t, tile.attention->head_dim_v);
      vectors -= share;
      first_row += share * width;
      for (int v = 0; v < t.vectors; v++) {
        low = smaller(low, t.low_of[v]);
        high = larger(high, t.high_of[v]);
      }
    }
  }
  // Blocks begin where those of other tiles do: a row's bits do not depend on its tile.
  begin += larger<int64_t>(low - begin, 0) / Values::block_keys * Values::block_keys;
  end = smaller<int64_t>(end, high);
  Stages<Values> stages(tile, modifiers, s);
  for (int64_t key = begin; key < end; key += Values::block_keys) {
    const int n = static_cast<int>(smaller<int64_t>(Values::block_keys, end - key));
    for (int i = 0; i < subtiles; i++) {
      SubTile &t = s->sub[i];
      if (!block_masked(*t.tile, t.first_row, t.vectors * width, key, key + n)) stages.add(t, key, n);
    }
  }
  stages.finish();
  end_tiles();
  return subtiles;
}

template <class Values>
inline void prefill_partial(const QueryTile &tile, int64_t begin, int64_t end, const Partial &partial, void *memory) {
  PrefillScratch *s = carve(tile, memory);
  const ScoreMod modifiers(tile);
  const int subtiles = prefill_tile<Values>(tile, modifiers, begin, end, s);
  for (int i = 0; i < subtiles; i++) {
    SubTile &t = s->sub[i];
    Values::finish(t, tile.attention->head_dim_v, s->values);
    store_partial(*t.tile, t, modifiers.score_scale(),
                  partial_of_head(tile, static_cast<int>(t.tile - s->head), partial));
  }
}

template <class Values>
inline bool prefill_output(const QueryTile &tile, int64_t keys, void *memory) {
  const Attention &a = *tile.attention;
  if (tile.out_elem != dtype_bytes(a.out_dtype) || a.hadamard_v > 1) return false;
  PrefillScratch *s = carve(tile, memory);
  const ScoreMod modifiers(tile);
  const int subtiles = prefill_tile<Values>(tile, modifiers, 0, keys, s);
  bool finite = true;
  for (int i = 0; i < subtiles; i++) {
    SubTile &t = s->sub[i];
    Values::finish(t, a.head_dim_v, s->values);
    finite = store_results(*t.tile, t, modifiers.score_scale()) && finite;
  }
  return finite;
}

constexpr Microkernel prefill_microkernel = {
    .tile_rows = Simd::subtiles * lanes,
    .max_rows = Simd::max_subtiles * lanes,
    .many_tiles = true,
    .max_heads = 1,
    .max_rows_of_heads = 0,
    .any_stride = true,
    .finite_scores_only = Simd::parts > 1,  // Inf is not the sum of its parts
    .supports = prefill_supports,
    .scratch_bytes = prefill_scratch_bytes,
    .compute_partial = prefill_partial<ByDims>,
    .compute_output = prefill_output<ByDims>,
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
