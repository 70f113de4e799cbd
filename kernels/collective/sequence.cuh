// The sequences of a call on a GPU (core/sequence.h), and the rows and pages of their keys.
#pragma once

#include "common/params.h"
#include "core/sequence.h"

namespace fa::kernels {

/// x / n, where x is below 2^31.
__device__ inline uint32_t quotient(uint32_t x, FastDivmod by_n) {
  return (__umulhi(x, by_n.multiplier) + x) >> by_n.shift;
}

/// The quotient of an x that may have more than 31 bits, which is rare.
__device__ inline int64_t quotient(int64_t x, int64_t n, FastDivmod by_n) {
  return x >> 31 == 0 ? quotient(uint32_t(x), by_n) : x / n;
}

using fa::Interval;
using Sequence = SequenceOf<int32_t>;

__device__ inline Sequence sequence(const Params &p, int32_t b) {
  if (!p.is_varlen) return {b, p.rows_q, p.rows_k, 0, b, 0, p.top_left ? 0 : p.rows_k - p.rows_q};
  return sequence_of(p, p.rows_q, p.rows_k, p.top_left != 0, b);
}

/// The batch entry of q, out and lse that a sequence is in.
__device__ inline int32_t q_batch(const Params &p, const Sequence &s) {
  return p.cu_seqlens_q ? 0 : s.index;
}

/// The keys that the causal mask, the window and the chunk leave to a query; empty: {0, 0}.
__device__ inline Interval attended(const Params &p, const Sequence &s, int32_t query) {
  if (!p.has_key_bounds) return {0, max(s.keys, 0)};
  const int64_t position = query + s.offset;
  return attended_keys(p, p.causal != 0, position, position, s.keys);
}

/// The number of the page that a token is on, in its sequence; 0 where keys are not paged.
__device__ inline int32_t page_number(const Params &p, int32_t token) {
  return int32_t(quotient(token, p.by_page_size));
}

/// A page of a sequence, from the block table.
__device__ inline int32_t page_of(const Params &p, const Sequence &s, int32_t number) {
  return *reinterpret_cast<const int32_t *>(p.block_table.data + s.index * p.block_table.stride[0] +
                                            number * p.block_table.stride[1]);
}

/// The address of a key's (or value's) row 0 .. keys - 1 of a key/value head; paged: through the block table.
__device__ inline const char *key_row(const Params &p, const View &view, const Sequence &s, int32_t key, int32_t head) {
  const int32_t token = s.k_first + key;
  if (p.page_size == 0) return view.data + s.k_batch * view.stride[0] + token * view.stride[1] + head * view.stride[2];
  const int32_t page = page_of(p, s, token / p.page_size);
  return view.data + page * view.stride[0] + token % p.page_size * view.stride[1] + head * view.stride[2];
}

}  // namespace fa::kernels
