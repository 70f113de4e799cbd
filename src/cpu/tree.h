// A tree of new tokens: which of their keys a row attends (fa.h, TREES OF NEW TOKENS).
#pragma once

#include "cpu/tile.h"

namespace fa::cpu {

// Of internal linkage, as kernels are compiled for an ISA each.
namespace {

inline int32_t load_i32(const char *from) {
  int32_t x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}

/// The position of a new token, which may be negative.
inline int64_t position_of(const NewKeys &keys, int64_t token) {
  return keys.first + (keys.depth != nullptr ? load_i32(keys.depth + token * keys.depth_step) : token);
}

/// Whether a row attends a new token, from 0 on.
inline bool attends_token(const NewKeys &keys, const TreeRow &row, int64_t token) {
  if (token >= keys.count) return false;
  const auto word = static_cast<uint32_t>(load_i32(row.words + token / 32 * keys.word_step));
  if ((word >> token % 32 & 1) == 0) return false;
  const int64_t position = position_of(keys, token);
  return row.low <= position && position < row.high;
}

/// Whether the tile has new keys before key `end`.
inline bool reaches_new_keys(const QueryTile &tile, int64_t end) {
  return end > tile.new_keys.first;
}

/// Whether a row of the tile attends a key that is within its low and high.
inline bool attends_in_tree(const QueryTile &tile, int row, int64_t key) {
  const int64_t token = key - tile.new_keys.first;
  return token < 0 || attends_token(tile.new_keys, tile.tree[row], token);
}

/// The distance of a row's position from that of a key.
inline float tree_distance(const QueryTile &tile, int row, int64_t key) {
  const int64_t token = key - tile.new_keys.first;
  const bool is_new = token >= 0 && token < tile.new_keys.count;
  const int64_t at = is_new ? position_of(tile.new_keys, token) : key;
  const int64_t distance = tile.tree[row].position - at;
  return static_cast<float>(distance < 0 ? -distance : distance);
}

}  // namespace
}  // namespace fa::cpu
