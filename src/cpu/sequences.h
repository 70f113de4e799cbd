// The sequences of a call, resolved on the host: the location, number and alignment of each one's rows.
#pragma once

#include "core/call.h"
#include "cpu/cache.h"

namespace fa::cpu {

struct Sequence {
  int64_t q_batch, q_first, q_len;  // rows q_first .. q_first + q_len - 1 of entry q_batch of q
  int64_t k_batch, k_first, k_len;  // the same of k; paged: k_first is the token that is key 0
  int64_t offset;                   // position of query 0 among the keys

  /// The keys low <= j < high that the causal mask, the window and the chunk leave to a query.
  struct KeyRange {
    int32_t low, high;
  };
  KeyRange attended(const Attention &attention, int64_t query) const { return attended(attention, query, query); }

  /// The smallest range with all keys that queries first .. last attend.
  KeyRange attended(const Attention &attention, int64_t first, int64_t last) const;

  /// The range of all queries.
  KeyRange attended(const Attention &attention) const {
    return q_len > 0 ? attended(attention, 0, q_len - 1) : KeyRange{0, 0};
  }
};

/// Checks the contents of every array that describes sequences, pages included.
fa_status check_sequences(const Inputs &inputs);

/// Sequence b of a call that check_sequences has passed.
Sequence resolve_sequence(const Inputs &inputs, int64_t b);

/// The sequence's part of the block table, where the call is paged.
Pages pages_of(const Inputs &inputs, const Sequence &s, int64_t b);

/// The sequence's rows of k or of v, from a head on.
CacheRows cache_rows(const Inputs &inputs, const View &tensor, const Sequence &s, int64_t head);

}  // namespace fa::cpu
