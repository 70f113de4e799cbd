// One sequence of a call, as fa.h defines it: which rows of which tensor it consists of, how its queries align with its
// keys, and which keys each query attends by causal mask, window and chunk.
#pragma once

#include "common/params.h"

namespace fa::kernels {

/// x / n, where x is below 2^31.
__device__ inline uint32_t quotient(uint32_t x, FastDivmod by_n) {
  return (__umulhi(x, by_n.multiplier) + x) >> by_n.shift;
}

/// The same of an x that is seldom larger.
__device__ inline int64_t quotient(int64_t x, int64_t n, FastDivmod by_n) {
  return x >> 31 == 0 ? quotient(uint32_t(x), by_n) : x / n;
}

/// Keys low <= j < high.
struct Interval {
  int32_t low, high;

  __device__ bool empty() const { return low >= high; }
  __device__ bool holds(int32_t key) const { return low <= key && key < high; }
};

struct Sequence {
  int32_t index;             // b: in arrays, bias, mask, slopes and sinks
  int32_t queries, keys;     // used ones, left padding not counted
  int32_t q_first;           // query 0 in q and out, of batch entry q_batch
  int32_t k_batch, k_first;  // key 0 in k and v; paged: k_first is the token that is key 0
  int64_t offset;            // of query 0 among the keys
};

__device__ inline int32_t rows_of(const int32_t *cumulative, int32_t rows, int32_t b) {
  return cumulative ? cumulative[b + 1] - cumulative[b] : rows;
}

__device__ inline Sequence sequence(const Params &p, int32_t b) {
  if (!p.is_varlen) return {b, p.rows_q, p.rows_k, 0, b, 0, p.top_left ? 0 : p.rows_k - p.rows_q};
  Sequence s;
  s.index = b;
  s.q_first = p.cu_seqlens_q ? p.cu_seqlens_q[b] : 0;
  s.queries = p.seqused_q ? p.seqused_q[b] : rows_of(p.cu_seqlens_q, p.rows_q, b);
  s.k_batch = p.cu_seqlens_k ? 0 : p.kv_batch_idx ? p.kv_batch_idx[b] : b;
  s.k_first = p.cu_seqlens_k ? p.cu_seqlens_k[b] : 0;
  s.keys = p.seqused_k ? p.seqused_k[b] : rows_of(p.cu_seqlens_k, p.rows_k, b);
  if (p.leftpad_k) {
    s.k_first += p.leftpad_k[b];
    s.keys -= p.leftpad_k[b];
  }
  s.offset = p.q_offset ? p.q_offset[b] : p.top_left ? 0 : s.keys - s.queries;
  return s;
}

/// The batch entry of q, out and lse that a sequence is in.
__device__ inline int32_t q_batch(const Params &p, const Sequence &s) {
  return p.cu_seqlens_q ? 0 : s.index;
}

/// The keys that the causal mask, the window and the chunk leave to a query; empty: {0, 0}.
__device__ inline Interval attended(const Params &p, const Sequence &s, int32_t query) {
  if (!p.has_key_bounds) return {0, max(s.keys, 0)};
  const int64_t position = query + s.offset;
  int64_t low = 0, high = s.keys;
  if (p.causal) high = min(high, position + 1);
  if (p.window_left >= 0) low = max(low, position - p.window_left);
  if (p.window_right >= 0) high = min(high, position + p.window_right + 1);
  if (p.chunk > 0) {
    const int64_t chunk = position / p.chunk - (position % p.chunk < 0 ? 1 : 0);  // rounded down
    low = max(low, chunk * p.chunk);
    high = min(high, (chunk + 1) * p.chunk);
  }
  return low < high ? Interval{int32_t(low), int32_t(high)} : Interval{0, 0};
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
