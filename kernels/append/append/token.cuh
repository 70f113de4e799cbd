// New tokens: their rows in the call, and in the cache.
#pragma once

#include "collective/sequence.cuh"
#include "common/append_params.h"
#include "core/new_tokens.h"

namespace fa::kernels::append {

/// A token of a call: its sequence, and its number there.
struct Token {
  NewTokensOf<int32_t> sequence;
  int32_t number;
  bool used;
};

/// n / d, in 32 bits where n fits them.
__device__ inline int64_t divided(int64_t n, int32_t d) {
  return n >> 31 == 0 ? uint32_t(n) / uint32_t(d) : n / d;
}

/// The last sequence that begins at or before a row, or the first; of those without rows, one after another, the last.
__device__ inline int32_t sequence_with(const int32_t *cumulative, int32_t sequences, int64_t row) {
  int32_t low = 0, high = sequences - 1;
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    if (cumulative[middle] <= row) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Row n of all rows of k, or of q: of a tensor that has `rows` of each sequence, unless they are packed.
__device__ inline Token token_of(const AppendParams &p, int64_t n, int32_t rows, bool of_q) {
  const bool packed = p.cu_seqlens_new != nullptr;
  const auto b = int32_t(packed ? sequence_with(p.cu_seqlens_new, p.batch, n) : divided(n, rows));
  Token token = {new_tokens<int32_t>(p, p.rows_new, b), 0, false};
  token.number = int32_t(packed ? n - token.sequence.first : n - int64_t(b) * rows);
  const bool as_new = packed || p.seqused_new != nullptr || !of_q;
  token.used = token.number >= 0 && token.number < (as_new ? token.sequence.count : rows);
  return token;
}

/// A token's element of a tensor of indices.
__device__ inline int64_t index_of(const View &view, int32_t wide, const Token &token) {
  const char *const at = view.data + token.sequence.batch * view.stride[0] +
                         (int64_t(token.sequence.first) + token.number) * view.stride[1];
  return wide ? *reinterpret_cast<const int64_t *>(at) : *reinterpret_cast<const int32_t *>(at);
}

/// A row of the cache; negative where the token is skipped.
struct CacheRow {
  int64_t entry, row;
};

__device__ inline CacheRow cache_row_of(const AppendParams &p, const Token &token) {
  if (p.slot_mapping.data != nullptr) {
    const int64_t slot = index_of(p.slot_mapping, p.slots_wide, token);
    if (slot < 0) return {0, -1};
    const int64_t page = quotient(slot, p.page_size, p.by_page_size);
    return {page, slot - page * p.page_size};
  }
  const int64_t row = token.sequence.cache_row + token.number;
  if (p.page_size == 0) return {token.sequence.entry, row};
  const int64_t page = quotient(row, p.page_size, p.by_page_size);
  const char *const entry =
      p.block_table.data + token.sequence.index * p.block_table.stride[0] + page * p.block_table.stride[1];
  return {*reinterpret_cast<const int32_t *>(entry), row - page * p.page_size};
}

__device__ inline int64_t position_of(const AppendParams &p, const Token &token, bool of_q) {
  if (of_q && p.q_positions.data != nullptr) return index_of(p.q_positions, p.q_positions_wide, token);
  if (p.positions.data != nullptr) return index_of(p.positions, p.positions_wide, token);
  return token.sequence.position + token.number;
}

}  // namespace fa::kernels::append
