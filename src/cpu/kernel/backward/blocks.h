// The staged data of a tile of queries and of a tile of keys in the workspace: their rows as operands of the five
// products, and the gradients that these add up.
#pragma once

#include "cpu/backward/scheme.h"
#include "cpu/kernel/columns.h"
#include "cpu/kernel/products.h"

namespace fa::cpu::FA_ISA {
namespace {

constexpr int block_vectors = Simd::subtiles * Simd::tile_vectors;
constexpr int block_lanes = block_vectors * width;

/// Elements of a row that is a vector's multiple.
constexpr int64_t padded(int64_t dim) {
  return (dim + width - 1) / width * width;
}

/// The pitch of rows of this many floats: an odd number of cache lines, so that columns of rows use all sets of a
/// cache.
constexpr int64_t row_pitch(int64_t floats) {
  return ((floats + 15) / 16 | 1) * 16;
}

/// Pitches of scores, and of what is summed over queries.
constexpr int64_t score_pitch = row_pitch(block_lanes), by_queries_pitch = row_pitch(operands(block_lanes));

/// Takes arrays of floats off a piece of memory, or only counts them. Each begins a cache line.
class Carver {
 public:
  explicit Carver(void *memory) : next_(static_cast<char *>(memory)) {}

  template <class T = float>
  T *take(int64_t count) {
    static_assert(sizeof(T) == 4);
    char *at = next_;
    const int64_t bytes = (count * 4 + 63) / 64 * 64;
    if (next_ != nullptr) next_ += bytes;
    bytes_ += static_cast<size_t>(bytes);
    return reinterpret_cast<T *>(at);
  }
  size_t bytes() const { return bytes_; }

 private:
  char *next_;
  size_t bytes_ = 0;
};

template <class Tile>
constexpr size_t header_bytes = (sizeof(Tile) + 63) / 64 * 64;

template <class Tile>
inline void *behind(const Tile &tile) {
  return reinterpret_cast<char *>(const_cast<Tile *>(&tile)) + header_bytes<Tile>;
}

/// Columns are consecutive sub-tiles, [operands(dim)][lanes] each, as attend_tile of prefill has them.
struct QueryBlock {
  float *q_columns, *dout_columns;
  float *q_rows, *dout_rows;  // [operands(block_lanes)][row_pitch(padded dim)]; 0 for what is not finite
  float *dq;                  // [dim][lanes]
  float *minus_lse, *minus_delta, *beyond, *slope;   // [block_lanes]; lse as a power of two
  int32_t *low, *high, *position;                    // [block_lanes]
  int32_t *low_of, *high_of, *full_low, *full_high;  // [block_vectors], as in SubTile

  QueryBlock(const Attention &a, Carver carver) { carve(a, carver); }
  static size_t bytes(const Attention &a) {
    Carver counter(nullptr);
    QueryBlock(counter).carve(a, counter);
    return counter.bytes();
  }

  float *q_columns_of(int subtile, int64_t dim) const { return q_columns + subtile * operands(dim) * lanes; }
  float *dout_columns_of(int subtile, int64_t dim) const { return dout_columns + subtile * operands(dim) * lanes; }
  float *dq_of(int subtile, int64_t dim) const { return dq + subtile * dim * lanes; }

 private:
  explicit QueryBlock(const Carver &) {}
  void carve(const Attention &a, Carver &carver) {
    q_columns = carver.take(operands(a.head_dim) * block_lanes);
    dout_columns = carver.take(operands(a.head_dim_v) * block_lanes);
    q_rows = carver.take(operands(block_lanes) * row_pitch(padded(a.head_dim)));
    dout_rows = carver.take(operands(block_lanes) * row_pitch(padded(a.head_dim_v)));
    dq = carver.take(a.head_dim * block_lanes);
    minus_lse = carver.take(block_lanes);
    minus_delta = carver.take(block_lanes);
    beyond = carver.take(block_lanes);
    slope = carver.take(block_lanes);
    low = carver.take<int32_t>(block_lanes);
    high = carver.take<int32_t>(block_lanes);
    position = carver.take<int32_t>(block_lanes);
    low_of = carver.take<int32_t>(block_vectors);
    high_of = carver.take<int32_t>(block_vectors);
    full_low = carver.take<int32_t>(block_vectors);
    full_high = carver.take<int32_t>(block_vectors);
  }
};

struct KeyBlock {
  float *k, *v;      // [key_block][row_pitch(operands(dim))]
  float *k_by_keys;  // for dq: [operands(key_block)][row_pitch(dim)], 0 for what is not finite; see dq_operands
  float *dk, *dv;    // [key_block][padded dim]

  KeyBlock(const Attention &a, Carver carver) { carve(a, carver); }
  static size_t bytes(const Attention &a) {
    Carver counter(nullptr);
    KeyBlock(counter).carve(a, counter);
    return counter.bytes();
  }

  /// Where an operand is one element, keys that are finite serve as they are.
  const float *dq_operands(bool special) const { return Simd::pack == 1 && !special ? k : k_by_keys; }

 private:
  explicit KeyBlock(const Carver &) {}
  void carve(const Attention &a, Carver &carver) {
    k = carver.take(key_block * row_pitch(operands(a.head_dim)));
    v = carver.take(key_block * row_pitch(operands(a.head_dim_v)));
    k_by_keys = carver.take(operands(key_block) * row_pitch(a.head_dim));
    dk = carver.take(key_block * padded(a.head_dim));
    dv = carver.take(key_block * padded(a.head_dim_v));
  }
};

/// A worker's own memory.
struct BackwardScratch {
  float *scores, *dscores;  // [key_block][score_pitch]; weights and gradients of scores take their place
  float *weights_by_queries, *dscores_by_queries;  // pairs of bf16: [key_block][by_queries_pitch]
  float *dscores_by_keys;                          // pairs of bf16: [key_block / 2][score_pitch]
  float *rows;                                     // [2 * width][staging_pitch], for transposing

  BackwardScratch(const Attention &a, Carver carver) { carve(a, carver); }
  static size_t bytes(const Attention &a) {
    Carver counter(nullptr);
    BackwardScratch(counter).carve(a, counter);
    return counter.bytes();
  }
  static int64_t staging_pitch(const Attention &a) { return padded(larger_dim(a)) + width; }

 private:
  explicit BackwardScratch(const Carver &) {}
  void carve(const Attention &a, Carver &carver) {
    scores = carver.take(key_block * score_pitch);
    dscores = carver.take(key_block * score_pitch);
    rows = carver.take(2 * width * staging_pitch(a));
    if constexpr (Simd::pack == 2) {
      weights_by_queries = carver.take(key_block * by_queries_pitch);
      dscores_by_queries = carver.take(key_block * by_queries_pitch);
      dscores_by_keys = carver.take(key_block / 2 * score_pitch);
    } else {
      weights_by_queries = scores;
      dscores_by_queries = dscores_by_keys = dscores;
    }
  }
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
