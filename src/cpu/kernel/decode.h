// Attention of a few query rows, lanes = elements of a row: every key and value is read once, straight from memory, for
// all the rows of its group. Scores stand as [key][row], so that a vector holds the pairs of width / rows keys.
#pragma once

#include "cpu/kernel/macros.h"
#include "cpu/kernel/products.h"
#include "cpu/kernel/scores.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Rows worked on together at most, and sums kept in registers.
constexpr int group_rows = 4;
constexpr int decode_sums = Simd::width < 8 ? 8 : Simd::width;

/// Keys worked on at a time: their rows and values' stay in the first cache.
constexpr int decode_keys = 64;
static_assert(key_block % decode_keys == 0);

/// Rows of one group, their lanes, and their running softmax.
struct Group {
  int first, rows;  // rows stands for 1, 2 or 4: rows past the tile's last repeat it
  const float *q[group_rows];
  int32_t full_low, full_high;                                   // every row attends [full_low, full_high)
  alignas(64) int32_t low[width], high[width], position[width];  // lane i: row i % rows, less its key's i / rows
  alignas(64) float slope[width];
  alignas(64) float max[width];  // equal for all lanes of a row
  float sum[group_rows];
};

inline int64_t group_count(int rows) {
  return (rows + group_rows - 1) / group_rows;
}

inline size_t decode_scratch_bytes(const Attention &a, int rows) {
  const int64_t floats = rows * a.head_dim + decode_keys * group_rows + width;
  return static_cast<size_t>(group_count(rows)) * sizeof(Group) + static_cast<size_t>(floats) * sizeof(float) + 64;
}

inline const Row &group_row(const Tile &tile, const Group &g, int i) {
  return tile.row[smaller(g.first + i, tile.rows - 1)];
}

/// Where the rows of one block stand, and the keys of the block that follows.
struct BlockRows {
  const char *key[decode_keys], *value[decode_keys], *next_key[decode_keys];
  int next_keys;
};

inline void find_rows(const KeyStream &stream, int64_t key, int n, int64_t end, BlockRows &rows) {
  for (int j = 0; j < n; j++) rows.key[j] = key_row(stream, key + j);
  for (int j = 0; j < n; j++) rows.value[j] = value_row(stream, key + j);
  rows.next_keys = static_cast<int>(smaller<int64_t>(decode_keys, end - key - n));
  for (int j = 0; j < rows.next_keys; j++) rows.next_key[j] = key_row(stream, key + n + j);
}

// Memory is kept busy by both products: the first asks for the values of its keys, the second for the keys of the next
// block. Asked for together they would wait on memory in one product and leave it idle in the other.

/// Asks for the lines of some rows, one at a time and in order: memory is slower by columns.
class Ahead {
 public:
  Ahead(const char *const *row, int rows, int64_t bytes) : row_(row), end_(row + rows), bytes_(bytes) {}

  void ask() {
    if (row_ == end_) return;
    __builtin_prefetch(*row_ + at_);
    at_ += 64;
    if (at_ < bytes_) return;
    at_ = 0;
    row_++;
  }

 private:
  const char *const *row_, *const *end_;
  int64_t bytes_, at_ = 0;
};

/// Calls step(Count<n>, d) for the vectors of a row from d = 0 on, `most` at a time, then 2, then 1.
template <int most, class Step>
inline void over_row(int64_t dim, const Step &step) {
  int64_t d = 0;
  for (; d + most * width <= dim; d += most * width) step(Count<most>(), d);
  if constexpr (most > 2)
    for (; d + 2 * width <= dim; d += 2 * width) step(Count<2>(), d);
  if constexpr (most > 1)
    if (d < dim) step(Count<1>(), d);
}

/// scores[key][row] = q[row] . k[key] for n keys.
template <int rows, fa_dtype dtype>
[[gnu::noinline]] void decode_scores(const BlockRows &block, int n, const Group &g, int64_t dim, int64_t dim_v,
                                     float *scores) {
  constexpr int keys = width / rows;  // of one vector of sums
  constexpr int64_t bytes = dtype == FA_F32 ? 4 : 2;
  for (int j = 0; j < n; j += keys) {
    const char *k[keys];
    FA_UNROLL for (int i = 0; i < keys; i++) {
      k[i] = block.key[smaller(j + i, n - 1)];
      for (int64_t line = 0; line < dim_v * bytes; line += 64)
        __builtin_prefetch(block.value[smaller(j + i, n - 1)] + line);
    }
    Vec sum[width];
    FA_UNROLL for (int i = 0; i < width; i++) sum[i] = Simd::zero();
    over_row<2>(dim, [&](auto count, int64_t d) {
      constexpr int vectors = decltype(count)::value;
      Vec element[keys][vectors];
      FA_UNROLL for (int i = 0; i < keys; i++) load_pairs<dtype, vectors>(k[i] + d * bytes, element[i]);
      FA_UNROLL for (int v = 0; v < vectors; v++) FA_UNROLL for (int r = 0; r < rows; r++) {
        Vec query = Simd::load(g.q[r] + d + v * width);
        Simd::pin(query);  // GCC would load it again for every key
        FA_UNROLL for (int i = 0; i < keys; i++) sum[i * rows + r] = Simd::fma(element[i][v], query, sum[i * rows + r]);
      }
    });
    Simd::store(scores + j * rows, Simd::sums(sum));
  }
}

/// values[row] = alpha[row] values[row] + sum over n keys of p[key][row] v[key], for `vectors` vectors of the head
/// dimension from d on.
template <int rows, int vectors, fa_dtype dtype>
[[gnu::noinline]] void decode_values(const BlockRows &block, int n, const float *p, int64_t d, const Vec *alpha,
                                     float *const *values, Ahead &next) {
  constexpr int64_t bytes = dtype == FA_F32 ? 4 : 2;
  Ahead ahead = next;  // in registers
  Vec sum[rows][vectors];
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int i = 0; i < vectors; i++) sum[r][i] =
      Simd::mul(alpha[r], Simd::load(values[r] + d + i * width));
  for (int j = 0; j < n; j++) {
    ahead.ask();
    Vec element[vectors];
    load_pairs<dtype, vectors>(block.value[j] + d * bytes, element);
    FA_UNROLL for (int r = 0; r < rows; r++) {
      const Vec weight = Simd::set1(p[j * rows + r]);
      FA_UNROLL for (int i = 0; i < vectors; i++) sum[r][i] = Simd::fma(weight, element[i], sum[r][i]);
    }
  }
  FA_UNROLL for (int r = 0; r < rows; r++) FA_UNROLL for (int i = 0; i < vectors; i++)
      Simd::store(values[r] + d + i * width, sum[r][i]);
  next = ahead;
}

/// Pads the scores of n keys with -inf to whole vectors.
template <int rows>
inline void pad_scores(int n, float *scores) {
  constexpr int keys = width / rows;
  for (int i = n * rows; i < (n + keys - 1) / keys * keys * rows; i++) scores[i] = -infinity;
}

/// Modifies and masks the scores of n keys.
template <int rows>
inline void finish_decode_scores(const Tile &tile, const Group &g, const Modifiers &m, int64_t key, int n,
                                 float *scores) {
  constexpr int keys = width / rows;
  const Lane lane = {g.low, g.high, g.position, g.slope};
  const Vec none = Simd::set1(-infinity);
  for (int j = 0; j < n; j += keys) {
    const int32_t at = static_cast<int32_t>(key + j);
    Vec x = Simd::load(scores + j * rows), bias = Simd::zero(), mask = Simd::zero();
    if (m.bias || m.mask) {
      alignas(64) float biases[width] = {}, masks[width] = {};
      for (int i = 0; i < width && j + i / rows < n; i++) {
        const Row &row = group_row(tile, g, i % rows);
        const int64_t k = key + j + i / rows;
        if (m.bias) biases[i] = load_element(row.bias + k * tile.bias_elem, tile.bias_dtype);
        if (m.mask) masks[i] = row.mask[k * tile.mask_elem] != 0 ? 1.0f : 0.0f;
      }
      bias = Simd::load(biases);
      mask = Simd::load(masks);
    }
    if (!m.plain) modify(&x, 1, m, &bias, &mask, lane, at);
    Simd::store(scores + j * rows, Simd::select(Simd::between(lane.low, lane.high, at), x, none));
  }
}

template <int rows, fa_dtype dtype>
inline void decode_block(const Tile &tile, Group &g, const Modifiers &m, const BlockRows &block, int64_t key, int n,
                         float *scores, const Partial &partial) {
  const Attention &a = *tile.attention;
  decode_scores<rows, dtype>(block, n, g, a.head_dim, a.head_dim_v, scores);
  const bool whole = g.full_low <= key && g.full_high >= key + n;
  if (!m.plain || !whole) finish_decode_scores<rows>(tile, g, m, key, n, scores);
  pad_scores<rows>(n, scores);

  const int pairs = (n * rows + width - 1) / width * width;
  Vec maximum = Simd::set1(-infinity);
  for (int i = 0; i < pairs; i += width) maximum = Simd::max(maximum, Simd::load(scores + i));
  alignas(64) float found[width], shift[width], total[width], factor[group_rows];
  Simd::store(found, maximum);
  const float scale = m.exponent_scale();
  for (int r = 0; r < rows; r++) {
    float now = g.max[r];
    for (int i = r; i < width; i += rows) now = larger(now, found[i] * scale);
    const float finite = now == -infinity ? 0.0f : now;
    factor[r] = g.max[r] - finite;
    for (int i = r; i < width; i += rows) {
      g.max[i] = now;
      shift[i] = -finite;
    }
  }
  Vec sum = Simd::zero();
  for (int i = 0; i < pairs; i += width) {
    const Vec p = exp2(Simd::fma(Simd::load(scores + i), Simd::set1(scale), Simd::load(shift)));
    sum = Simd::add(sum, p);
    Simd::store(scores + i, p);
  }
  Simd::store(total, sum);

  Vec alpha[rows];
  float *values[rows];
  for (int r = 0; r < rows; r++) {
    alpha[r] = exp2(Simd::set1(factor[r]));
    alignas(64) float scalar[width];
    Simd::store(scalar, alpha[r]);
    g.sum[r] *= scalar[0];
    for (int i = r; i < width; i += rows) g.sum[r] += total[i];
    values[r] = partial.values + smaller(g.first + r, tile.rows - 1) * a.head_dim_v;
  }
  Ahead next(block.next_key, block.next_keys, a.head_dim * element_bytes(dtype));
  over_row<smaller(4, decode_sums / rows)>(a.head_dim_v, [&](auto count, int64_t d) {
    decode_values<rows, decltype(count)::value, dtype>(block, n, scores, d, alpha, values, next);
  });
}

inline void begin_group(const Tile &tile, Group &g, int first, float *q) {
  const int64_t dim = tile.attention->head_dim;
  g.first = first;
  const int left = tile.rows - first;
  g.rows = left >= 3 ? 4 : left;
  for (int r = 0; r < g.rows; r++) {
    g.q[r] = q + smaller(first + r, tile.rows - 1) * dim;
    g.sum[r] = 0;
  }
  g.full_low = INT32_MIN;
  g.full_high = INT32_MAX;
  for (int r = 0; r < g.rows; r++) {
    g.full_low = larger(g.full_low, group_row(tile, g, r).low);
    g.full_high = smaller(g.full_high, group_row(tile, g, r).high);
  }
  for (int i = 0; i < width; i++) {
    const Row &row = group_row(tile, g, i % g.rows);
    const int shift = i / g.rows;
    g.low[i] = row.low - shift;
    g.high[i] = row.high - shift;
    g.position[i] = row.position - shift;
    g.slope[i] = row.slope;
    g.max[i] = -infinity;
  }
}

template <fa_dtype dtype>
inline void decode_group(const Tile &tile, Group &g, const Modifiers &m, const BlockRows &block, int64_t key, int n,
                         float *scores, const Partial &partial) {
  if (g.rows == 1) return decode_block<1, dtype>(tile, g, m, block, key, n, scores, partial);
  if (g.rows == 2) return decode_block<2, dtype>(tile, g, m, block, key, n, scores, partial);
  return decode_block<4, dtype>(tile, g, m, block, key, n, scores, partial);
}

inline void decode(const Tile &tile, int64_t begin, int64_t end, const Partial &partial, void *memory) {
  const Attention &a = *tile.attention;
  const Modifiers modifiers(tile);
  const int groups = static_cast<int>(group_count(tile.rows));
  auto *group = static_cast<Group *>(memory);
  float *q = reinterpret_cast<float *>(group + groups);
  float *scores = q + tile.rows * a.head_dim;
  const bool paired = a.kv_dtype == FA_BF16;

  int32_t low = INT32_MAX, high = 0;
  for (int i = 0; i < tile.rows; i++) {
    load_row(q + i * a.head_dim, tile.row[i].q, tile.q_elem, a.q_dtype, a.head_dim);
    if (paired) to_pair_order(q + i * a.head_dim, a.head_dim, false);
    for (int64_t d = 0; d < a.head_dim_v; d++) partial.values[i * a.head_dim_v + d] = 0;
    low = smaller(low, tile.row[i].low);
    high = larger(high, tile.row[i].high);
  }
  for (int i = 0; i < groups; i++) begin_group(tile, group[i], i * group_rows, q);

  begin = larger<int64_t>(begin, low);
  end = smaller<int64_t>(end, high);
  for (int64_t key = begin; key < end;) {
    const int n = static_cast<int>(smaller<int64_t>(decode_keys - key % decode_keys, end - key));
    BlockRows block;
    find_rows(tile.keys, key, n, end, block);
    for (int i = 0; i < groups; i++) {
      if (a.kv_dtype == FA_F32) decode_group<FA_F32>(tile, group[i], modifiers, block, key, n, scores, partial);
      if (a.kv_dtype == FA_F16) decode_group<FA_F16>(tile, group[i], modifiers, block, key, n, scores, partial);
      if (a.kv_dtype == FA_BF16) decode_group<FA_BF16>(tile, group[i], modifiers, block, key, n, scores, partial);
    }
    key += n;
  }
  for (int i = 0; i < tile.rows; i++) {
    const Group &g = group[i / group_rows];
    partial.max[i] = g.max[i % group_rows];
    partial.sum[i] = g.sum[i % group_rows];
    if (paired) to_pair_order(partial.values + i * a.head_dim_v, a.head_dim_v, true);
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
