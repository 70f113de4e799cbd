// The sequences of a call, resolved on the host: the location, number and alignment of each one's rows.
#pragma once

#include "core/call.h"
#include "core/sequence.h"
#include "cpu/cache.h"

namespace fa::cpu {

struct Sequence : SequenceOf<int64_t> {
  int64_t q_batch = 0;  // the entry of q, out and lse that has its rows

  /// The keys that the causal mask, the window and the chunk leave to a query.
  Interval attended(const Attention &attention, int64_t query) const { return attended(attention, query, query); }

  /// The smallest range with all keys that queries first .. last attend.
  Interval attended(const Attention &a, int64_t first, int64_t last) const {
    return attended_keys(a, a.mask != FA_MASK_NONE, first + offset, last + offset, keys);
  }

  /// The range of all queries.
  Interval attended(const Attention &attention) const {
    return queries > 0 ? attended(attention, 0, queries - 1) : Interval{0, 0};
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
