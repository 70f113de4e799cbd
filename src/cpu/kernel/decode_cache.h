// The two products of decode with keys and values of any type. They are read straight from memory, codes too; where
// scales differ within a row, a block is staged as f32 once for all rows of its head.
#pragma once

#include "cpu/kernel/decode_codes.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Whether the kernel supports quantised keys and values: not where operands are pairs of bf16.
constexpr bool reads_codes = Simd::pack == 1;

/// Floats that staging a block may need.
inline int64_t staged_floats(const Attention &a) {
  return is_quantised(a.kv_dtype) || is_quantised(a.v_dtype) || a.head_dim_rope != 0
             ? decode_keys * (a.head_dim + a.head_dim_v)
             : 0;
}

/// The keys, or the values, of a block as f32, where they are staged.
struct Staged {
  float *rows = nullptr;  // [decode_keys][dim]
  int head = -1;          // whose rows these are
  const char *row[decode_keys];
};

struct Staging {
  Staged k, v;

  Staging(const QueryTile &tile, float *memory) {
    const Attention &a = *tile.attention;
    const auto take = [&](bool staged, int64_t dim, Staged *rows) {
      if (!staged) return;
      rows->rows = memory;
      memory += decode_keys * dim;
    };
    const auto differ = [](const CacheRows &rows, const RowFactors &factors, int64_t dim) {
      return is_quantised(rows.dtype) && !(factors.scale.per_key(dim) && factors.zero.per_key(dim));
    };
    take(a.head_dim_rope != 0 || differ(tile.keys.k, tile.keys.k_factors, a.head_dim), a.head_dim, &k);
    take(differ(tile.keys.v, tile.keys.v_factors, a.head_dim_v), a.head_dim_v, &v);
  }
};

/// Bytes of a key in k.
inline int64_t k_row_bytes(const QueryTile &tile) {
  return row_bytes(tile.keys.k.dtype, tile.attention->head_dim_k());
}

/// Bytes that a block has in the caches for each of its keys.
inline int64_t bytes_of_key(const QueryTile &tile, const Staging &staging) {
  const Attention &a = *tile.attention;
  return k_row_bytes(tile) + row_bytes(tile.keys.v.dtype, a.head_dim_v) +
         (staging.k.rows != nullptr ? a.head_dim * 4 : 0) + (staging.v.rows != nullptr ? a.head_dim_v * 4 : 0);
}

/// A block of keys and the prefetchers that advance while it is processed.
struct DecodeBlock {
  const KvBlock &rows;
  int64_t first;
  Prefetcher &keys, &values;
  Staging &staging;
};

/// Rows of another head.
template <class Rows>
inline Rows of_head(Rows rows, int head) {
  if (rows.data != nullptr) rows.data += head * rows.head;
  return rows;
}

inline RowFactors of_head(const RowFactors &factors, int head) {
  return {of_head(factors.scale, head), of_head(factors.zero, head)};
}

/// A head's n rows of a block as f32; load(to, j) makes that of its key j.
template <class Load>
inline HeadRows stage(Staged &staged, int head, int n, int64_t dim, Load load) {
  const HeadRows result = {staged.row, 0, n};
  if (staged.head == head) return result;
  staged.head = head;
  for (int j = 0; j < n; j++) {
    float *to = staged.rows + j * dim;
    if constexpr (reads_codes) load(to, j);
    staged.row[j] = reinterpret_cast<const char *>(to);
  }
  return result;
}

inline HeadRows stage_keys_of(const QueryTile &tile, const DecodeBlock &block, int head) {
  KeyStream s = tile.keys;
  s.k = of_head(s.k, head), s.k_factors = of_head(s.k_factors, head), s.k_rope = of_head(s.k_rope, head);
  const int64_t dim = tile.attention->head_dim;
  return stage(block.staging.k, head, block.rows.n, dim,
               [&](float *to, int j) { load_key(to, s, block.first + j, dim); });
}

inline HeadRows stage_values_of(const QueryTile &tile, const DecodeBlock &block, int head) {
  const KeyStream &s = tile.keys;
  const CacheRows rows = of_head(s.v, head);
  const RowFactors factors = of_head(s.v_factors, head);
  const int64_t dim = tile.attention->head_dim_v;
  return stage(block.staging.v, head, block.rows.n, dim,
               [&](float *to, int j) { load_cached_row(to, rows, factors, s.pages, block.first + j, dim); });
}

/// S = Q K^T of a block.
template <int rows>
inline void decode_scores(const QueryTile &tile, const RowGroup &g, const DecodeBlock &block, float *scores) {
  const KeyStream &s = tile.keys;
  const RowFactors &factors = s.k_factors;
  const int n = block.rows.n;
  const int64_t dim = tile.attention->head_dim;
  const int64_t lines = cache_lines(row_bytes(s.v.dtype, tile.attention->head_dim_v));
  const HeadRows keys = {block.rows.key, g.head * s.k.head, n};
  if (block.staging.k.rows != nullptr)
    return decode_qk<rows, FA_F32>(stage_keys_of(tile, block, g.head), g, dim, lines, block.values, scores);
  if (!is_quantised(s.k.dtype)) {
    return with_type(s.k.dtype, [&](auto type) {
      decode_qk<rows, decltype(type)::dtype>(keys, g, dim, lines, block.values, scores);
    });
  }
  if constexpr (reads_codes) {
    KeyFactors zero, scale;
    if (factors.zero) load_factors(factors.zero, g.head, s.pages, block.first, n, zero.of);
    with_codes(s.k.dtype, [&](auto type) {
      decode_codes_qk<rows, decltype(type)::dtype>(keys, g, dim, factors.zero ? zero.of : nullptr, lines, block.values,
                                                   scores);
    });
    if (!factors.scale) return;
    load_factors(factors.scale, g.head, s.pages, block.first, n, scale.of);
    multiply_pairs<rows>(scores, scale.of, n);
  }
}

/// O = O a + P V of a block. Scales become factors of the weights.
template <int rows>
inline void add_values(const QueryTile &tile, const RowGroup &g, const DecodeBlock &block, float *weights,
                       const Vec *alpha, float *const *values) {
  const KeyStream &s = tile.keys;
  const RowFactors &factors = s.v_factors;
  const int n = block.rows.n;
  const int64_t dim = tile.attention->head_dim_v;
  constexpr int max_vectors = smaller(4, decode_sums / rows);
  const auto lines = [&](int vectors) {  // of the next keys for every pv_keys keys of a pass over these vectors
    const int64_t passes = (dim + vectors * width - 1) / (vectors * width);
    return (pv_keys * cache_lines(k_row_bytes(tile)) + passes - 1) / passes;
  };
  const auto plain = [&](auto type, const HeadRows &from) {
    const int64_t next = lines(max_vectors);
    for_each_vector<max_vectors>(dim, [&](auto count, int64_t d) {
      decode_pv<rows, decltype(count)::value, decltype(type)::dtype>(from, weights, d, alpha, values, next, block.keys);
    });
  };
  const HeadRows from = {block.rows.value, g.head * s.v.head, n};
  if (!is_quantised(s.v.dtype)) return with_type(s.v.dtype, [&](auto type) { plain(type, from); });
  if (block.staging.v.rows != nullptr) return plain(Element<FA_F32>(), stage_values_of(tile, block, g.head));
  if constexpr (reads_codes) {
    KeyFactors zero, scale;
    if (factors.scale) {
      load_factors(factors.scale, g.head, s.pages, block.first, n, scale.of);
      multiply_pairs<rows>(weights, scale.of, n);
    }
    if (factors.zero) load_factors(factors.zero, g.head, s.pages, block.first, n, zero.of);
    constexpr int together = larger(decode_codes_sums / rows, 2);
    const int64_t next = lines(together);
    with_codes(s.v.dtype, [&](auto type) {
      for_each_vector<together>(dim, [&](auto count, int64_t d) {
        decode_codes_pv<rows, decltype(count)::value, decltype(type)::dtype>(
            from, weights, d, factors.zero ? zero.of : nullptr, alpha, values, next, block.keys);
      });
    });
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
