// fa_append on the CPU: new tokens into the cache, and queries rotated.
#pragma once

#include "core/new_tokens.h"
#include "cpu/tile.h"

namespace fa::cpu {

using NewTokens = NewTokensOf<int64_t>;

inline NewTokens new_tokens_of(const AppendCall &call, int64_t b) {
  return new_tokens<int64_t>(call, call.rows_new, static_cast<int32_t>(b));
}

/// Queries of the sequence whose new tokens are t.
inline int64_t queries_of(const AppendCall &call, const NewTokens &t) {
  return call.cu_seqlens_new != nullptr || call.seqused_new != nullptr ? t.count : call.rows_q;
}

/// The element of new token i, or of query i, in a tensor of positions or of slots.
int64_t index_of(const View &view, const NewTokens &t, int64_t i);

/// Checks the contents of every array, and of the tensors of indices, before anything is written.
fa_status check_append(const AppendCall &call);

/// The number of workers, at most `threads`, that a call has enough bytes for.
int64_t append_workers(const AppendCall &call, int64_t threads);

/// Writes a worker's share of a call that check_append has passed. Tokens that share a row of the cache are written by
/// one worker, in order.
void run_append(const AppendCall &call, const IsaKernels &kernels, int64_t worker, int64_t workers);

}  // namespace fa::cpu
