// The new tokens of one sequence of fa_append, as fa.h defines them: their rows in k and in the cache.
// Compiled by the host's compiler and by nvcc alike.
#pragma once

#include <cstdint>

namespace fa {

/// Int: of rows. The GPU kernels count in 32 bits.
template <class Int>
struct NewTokensOf {
  int32_t index;            // b: in arrays and block_table
  Int batch, first, count;  // token 0's entry and row in k, v, positions and slots; the number of tokens
  int32_t entry;            // of the cache, where neither pages nor slots choose it
  int64_t cache_row;        // of token 0, counted from the sequence's first row in the cache
  int64_t position;         // of token 0, where positions are not given
};

/// The new tokens of sequence b. Call: with the arrays of fa_append_args, absent ones null; rows: of every sequence,
/// where these are not packed.
template <class Int, class Call>
constexpr NewTokensOf<Int> new_tokens(const Call &call, Int rows, int32_t b) {
  const int32_t *const packed = call.cu_seqlens_new;
  NewTokensOf<Int> t = {};
  t.index = b;
  t.batch = packed != nullptr ? 0 : b;
  t.first = packed != nullptr ? packed[b] : 0;
  t.count = call.seqused_new != nullptr ? call.seqused_new[b] : packed != nullptr ? packed[b + 1] - packed[b] : rows;
  t.entry = call.kv_batch_idx != nullptr ? call.kv_batch_idx[b] : b;
  t.cache_row = call.cache_seqlens != nullptr ? call.cache_seqlens[b] : 0;
  t.position = t.cache_row - (call.leftpad_k != nullptr ? call.leftpad_k[b] : 0);
  return t;
}

}  // namespace fa
