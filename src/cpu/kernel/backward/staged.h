// The staged data of a tile of queries and of a tile of keys in the workspace: their rows as operands of the five
// products, and the gradients that these add up.
#pragma once

#include "cpu/backward/microkernel.h"
#include "cpu/kernel/columns.h"
#include "cpu/kernel/products.h"

namespace fa::cpu::FA_ISA {
namespace {

constexpr int block_vectors = smaller(Simd::subtiles, 2) * Simd::tile_vectors;
constexpr int block_lanes = block_vectors * width;

/// Elements of a row padded to whole vectors.
constexpr int64_t padded(int64_t dim) {
  return (dim + width - 1) / width * width;
}

/// The pitch of rows of this many floats: an odd number of cache lines, so that columns of rows use all sets of a
/// cache.
constexpr int64_t row_pitch(int64_t floats) {
  return ((floats + 15) / 16 | 1) * 16;
}

/// Pitches of scores, and of sums over queries.
constexpr int64_t score_pitch = row_pitch(block_lanes), by_queries_pitch = row_pitch(operands(block_lanes));

/// Allocates arrays of 4-byte elements from a block of memory, or only counts their bytes. Each begins a cache line.
class ScratchAllocator {
 public:
  explicit ScratchAllocator(void *memory) : next_(static_cast<char *>(memory)) {}

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

template <class T>
constexpr size_t header_bytes = (sizeof(T) + 63) / 64 * 64;

template <class T>
inline void *behind(const T &tile) {
  return reinterpret_cast<char *>(const_cast<T *>(&tile)) + header_bytes<T>;
}

/// Pairs of vectors of queries whose operands fill a tile: where an odd number of vectors attends, the next one's are
/// 0.
constexpr int64_t query_operands = operands(block_lanes) + (has_tiles ? operands(width) : 0);

/// Columns are consecutive sub-tiles, [stored(operands(dim))][lanes] each, as prefill_tile of prefill has them.
struct StagedQueries {
  float *q_columns, *dout_columns;
  float *q_rows, *dout_rows;  // [query_operands][row_pitch(padded dim)]; 0 in place of NaN and Inf
  float *dq;                  // [stored(dim)][lanes]
  float *neg_lse_log2, *neg_delta, *position_overflow, *slope;  // [block_lanes]; lse as a power of two
  int32_t *low, *high, *position;                               // [block_lanes]
  int32_t *low_of, *high_of, *full_low, *full_high;             // [block_vectors], as in SubTile

  StagedQueries(const Attention &a, ScratchAllocator allocator) { allocate(a, allocator); }
  static size_t bytes(const Attention &a) {
    ScratchAllocator counter(nullptr);
    StagedQueries(counter).allocate(a, counter);
    return counter.bytes();
  }

  float *q_columns_of(int subtile, int64_t dim) const { return q_columns + subtile * stored(operands(dim)) * lanes; }
  float *dout_columns_of(int subtile, int64_t dim) const {
    return dout_columns + subtile * stored(operands(dim)) * lanes;
  }
  float *dq_of(int subtile, int64_t dim) const { return dq + subtile * stored(dim) * lanes; }

 private:
  explicit StagedQueries(const ScratchAllocator &) {}
  void allocate(const Attention &a, ScratchAllocator &allocator) {
    q_columns = allocator.take(stored(operands(a.head_dim)) * block_lanes);
    dout_columns = allocator.take(stored(operands(a.head_dim_v)) * block_lanes);
    q_rows = allocator.take(query_operands * row_pitch(padded(a.head_dim)));
    dout_rows = allocator.take(query_operands * row_pitch(padded(a.head_dim_v)));
    dq = allocator.take(stored(a.head_dim) * block_lanes);
    neg_lse_log2 = allocator.take(block_lanes);
    neg_delta = allocator.take(block_lanes);
    position_overflow = allocator.take(block_lanes);
    slope = allocator.take(block_lanes);
    low = allocator.take<int32_t>(block_lanes);
    high = allocator.take<int32_t>(block_lanes);
    position = allocator.take<int32_t>(block_lanes);
    low_of = allocator.take<int32_t>(block_vectors);
    high_of = allocator.take<int32_t>(block_vectors);
    full_low = allocator.take<int32_t>(block_vectors);
    full_high = allocator.take<int32_t>(block_vectors);
  }
};

struct StagedKeys {
  float *k, *v;      // [key_block][row_pitch(operands(dim))]
  float *k_by_keys;  // for dq: [operands(key_block)][row_pitch(dim)], or packed tiles of stored(dim) rows; 0 in place
                     // of NaN and Inf; see dq_operands
  float *dk, *dv;  // [key_block][padded dim]

  StagedKeys(const Attention &a, ScratchAllocator allocator) { allocate(a, allocator); }
  static size_t bytes(const Attention &a) {
    ScratchAllocator counter(nullptr);
    StagedKeys(counter).allocate(a, counter);
    return counter.bytes();
  }

  /// Where an operand is one element, finite keys are used in place.
  const float *dq_operands(bool special) const { return Simd::pack == 1 && !special ? k : k_by_keys; }

 private:
  explicit StagedKeys(const ScratchAllocator &) {}
  void allocate(const Attention &a, ScratchAllocator &allocator) {
    k = allocator.take(key_block * row_pitch(operands(a.head_dim)));
    v = allocator.take(key_block * row_pitch(operands(a.head_dim_v)));
    k_by_keys = allocator.take(operands(key_block) * row_pitch(a.head_dim));
    dk = allocator.take(key_block * padded(a.head_dim));
    dv = allocator.take(key_block * padded(a.head_dim_v));
  }
};

/// Scratch memory of one worker.
struct BackwardScratch {
  float *scores, *dscores;  // [key_block][score_pitch]; overwritten by weights and gradients of scores
  float *weights_by_queries, *dscores_by_queries;  // pairs of bf16: [key_block][by_queries_pitch]
  float *dscores_by_keys;                          // pairs of bf16: [key_block / 2][score_pitch]
  float *rows;                                     // [2 * width][staging_pitch], for transposing

  BackwardScratch(const Attention &a, ScratchAllocator allocator) { allocate(a, allocator); }
  static size_t bytes(const Attention &a) {
    ScratchAllocator counter(nullptr);
    BackwardScratch(counter).allocate(a, counter);
    return counter.bytes();
  }
  static int64_t staging_pitch(const Attention &a) { return padded(larger_dim(a)) + width; }

 private:
  explicit BackwardScratch(const ScratchAllocator &) {}
  void allocate(const Attention &a, ScratchAllocator &allocator) {
    scores = allocator.take(key_block * score_pitch);
    dscores = allocator.take(key_block * score_pitch);
    rows = allocator.take(2 * width * staging_pitch(a));
    if constexpr (Simd::pack == 2) {
      weights_by_queries = allocator.take(key_block * by_queries_pitch);
      dscores_by_queries = allocator.take(key_block * by_queries_pitch);
      dscores_by_keys = allocator.take(key_block / 2 * score_pitch);
    } else {
      weights_by_queries = scores;
      dscores_by_queries = dscores_by_keys = dscores;
    }
  }
};

}  // namespace
}  // namespace fa::cpu::FA_ISA
