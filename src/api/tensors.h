// The rules for the tensors of fa_args.
#pragma once

#include "api/args.h"

namespace fa::api {

/// Reads q, and from it batch, heads_q and rows_q.
bool read_queries(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem);

/// Reads block_table, k and v, and from them heads_kv, rows_k, batch_k and page_size. After read_queries.
bool read_keys(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem);

/// Reads out and lse. After read_keys.
bool read_outputs(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem);

/// Reads bias, mask, alibi_slopes and sinks. After read_keys and the bounds max_seqlen_q and max_seqlen_k.
bool read_addends(const fa_args &args, Problem *problem);

}  // namespace fa::api
