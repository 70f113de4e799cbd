// Trees of new tokens (fa.h, TREES OF NEW TOKENS): packed bits over the keys of a sequence's own queries, in place of
// the causal rule.
#pragma once

#include "collective/tile_scheduler.cuh"

namespace fa::kernels {

/// The key of token 0. Where that is past 31 bits all keys are before it; where it is below them, no query attends one.
__device__ inline int32_t first_new_key(const Sequence &s) {
  return int32_t(min(s.offset, int64_t{INT32_MAX}));
}

/// The position of a new token.
__device__ inline int64_t position_of_token(const Params &p, const Sequence &s, int32_t token) {
  if (!p.tree_depth.data) return s.offset + token;
  return s.offset + *reinterpret_cast<const int32_t *>(p.tree_depth.data + q_batch(p, s) * p.tree_depth.stride[0] +
                                                       (int64_t(s.q_first) + token) * p.tree_depth.stride[1]);
}

/// The position of a key: that of a new token where it is one of the sequence's.
__device__ inline int64_t position_of_key(const Params &p, const Sequence &s, int32_t key) {
  const int32_t token = key - first_new_key(s);
  return p.tree_depth.data && token >= 0 && token < s.queries ? position_of_token(p, s, token) : key;
}

/// A query's bits.
class TreeRow {
 public:
  __device__ TreeRow(const Params &p, const Sequence &s, Row row)
      : words_(p.tree_mask.data + q_batch(p, s) * p.tree_mask.stride[0] + row.head * p.tree_mask.stride[1] +
               (int64_t(s.q_first) + row.query) * p.tree_mask.stride[2]),
        step_(p.tree_mask.stride[3]),
        words_count_((s.queries + 31) / 32) {}

  __device__ bool attends(int32_t token) const { return word(token / 32) >> token % 32 & 1; }

  /// The bits of tokens first .. first + 31: 1 before token 0, 0 after the last word.
  __device__ uint32_t bits(int32_t first) const {
    const int32_t at = first >> 5;
    return __funnelshift_r(word(at), word(at + 1), first);
  }

 private:
  __device__ uint32_t word(int32_t at) const {
    if (at < 0) return ~0u;
    return at < words_count_ ? *reinterpret_cast<const uint32_t *>(words_ + at * step_) : 0;
  }

  const char *words_;
  int64_t step_;
  int32_t words_count_;
};

/// Whether the window and the chunk of a query leave the position of a new token.
__device__ inline bool leaves_position(const Params &p, int64_t query, int64_t token) {
  if (p.window_left >= 0 && token < query - p.window_left) return false;
  if (p.window_right >= 0 && token > query + p.window_right) return false;
  if (p.chunk == 0) return true;
  const int64_t into = query % p.chunk, begin = query - into - (into < 0 ? p.chunk : 0);
  return begin <= token && token < begin + p.chunk;
}

/// Whether a query attends a key, as far as the tree decides.
__device__ inline bool attends_in_tree(const Params &p, const Sequence &s, Row row, int32_t key) {
  const int32_t token = key - first_new_key(s);
  if (token < 0) return true;
  if (token >= s.queries || !TreeRow(p, s, row).attends(token)) return false;
  if (!p.tree_depth.data) return true;
  return leaves_position(p, position_of_token(p, s, row.query), position_of_token(p, s, token));
}

/// The same of tokens first .. first + 31, a bit each: 1 before token 0.
__device__ inline uint32_t attended_tokens(const Params &p, const Sequence &s, Row row, int32_t first) {
  uint32_t bits = TreeRow(p, s, row).bits(first);
  if (!p.tree_depth.data) return bits;
  const int64_t position = position_of_token(p, s, row.query);
#pragma unroll 1
  for (int32_t i = max(-first, 0); i < min(s.queries - first, 32); i++)
    if (!leaves_position(p, position, position_of_token(p, s, first + i))) bits &= ~(1u << i);
  return bits;
}

/// The interval from the first key that a query may attend to the last.
__device__ inline Interval attended_with_tree(const Params &p, const Sequence &s, int32_t query) {
  if (!p.has_key_bounds) return {0, max(s.keys, 0)};
  const bool tree = p.tree_mask.data != nullptr, depths = tree && p.tree_depth.data != nullptr;
  const int64_t position = depths ? position_of_token(p, s, query) : query + s.offset;
  const int64_t end = tree ? min(int64_t{s.keys}, s.offset + s.queries) : s.keys;
  const int64_t first = max(s.offset, int64_t{0});
  const Interval keys = attended_keys(p, p.causal != 0 && !tree, position, position, depths ? min(end, s.offset) : end);
  if (!depths || first >= end) return keys;
  return {keys.empty() ? int32_t(first) : keys.low, int32_t(end)};
}

}  // namespace fa::kernels
