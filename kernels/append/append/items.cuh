// A block's rows of a stream, a thread an item.
#pragma once

#include "append/append/token.cuh"
#include "append/append/rows.cuh"
#include "append/append/tiles.h"

namespace fa::kernels::append {

/// The rows of a block: from a head of a token on, of one stream.
struct RowTile {
  int which;
  int64_t first_token, tokens;  // tokens: of the call
  int32_t first_head;
};

/// The tile of this block.
__device__ inline RowTile row_tile(const AppendParams &p) {
  int64_t tile = p.schedule.first_tile + blockIdx.x;
  int which = k_stream;
  while (which < q_stream && tile >= p.stream[which].tiles) tile -= p.stream[which++].tiles;
  const RowStream &s = p.stream[which];
  const int64_t first = tile * s.tile_rows, first_token = divided(first, s.heads);
  const int64_t tokens = int64_t(which == q_stream ? p.rows_q : p.rows_new) * (p.cu_seqlens_new ? 1 : p.batch);
  return {which, first_token, tokens, int32_t(first - first_token * s.heads)};
}

/// The first element of a token's rows in the tensor that they come from.
__device__ inline const char *source_of(const RowStream &s, const Token &token) {
  const int64_t row = int64_t(token.sequence.first) + token.number;
  return s.from.data + token.sequence.batch * s.from.stride[0] + row * s.from.stride[1];
}

/// Item j of row n, of all rows of a stream.
__device__ inline void write_item(const AppendParams &p, int which, int64_t n, int32_t head, int j) {
  const RowStream &s = p.stream[which];
  const bool of_q = which == q_stream;
  const Token token = token_of(p, n, of_q ? p.rows_q : p.rows_new, of_q);
  if (!token.used) return;
  const CacheRow target =
      of_q ? CacheRow{token.sequence.batch, int64_t(token.sequence.first) + token.number} : cache_row_of(p, token);
  if (target.row < 0) return;
  const char *const from = source_of(s, token) + head * s.from.stride[2];
  char *const to = s.to.data + target.entry * s.to.stride[0] + target.row * s.to.stride[1] + head * s.to.stride[2];
  const int rotated = s.pairs / s.width;
  if (j < rotated) {
    write_rotated(p, s, from, to, j, position_of(p, token, of_q));
  } else {
    write_plain(s, from, to, j - rotated);
  }
}

/// All items of a tile.
__device__ inline void write_items(const AppendParams &p, const RowTile &tile) {
  const RowStream &s = p.stream[tile.which];
  for (uint32_t item = threadIdx.x; item < uint32_t(s.tile_rows * s.items); item += threads) {
    const uint32_t row = quotient(item, s.by_items), below = tile.first_head + row, token = quotient(below, s.by_heads);
    if (tile.first_token + token >= tile.tokens) break;
    write_item(p, tile.which, tile.first_token + token, int32_t(below - token * s.heads),
               int32_t(item - row * s.items));
  }
}

}  // namespace fa::kernels::append
