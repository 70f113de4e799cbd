// One sequence of a call, as fa.h defines it: which rows of which tensor it consists of, how its queries align with its
// keys, and which keys each query attends by causal mask, window and chunk. Compiled by the host's compiler and by nvcc
// alike.
#pragma once

#include <cstdint>

namespace fa {

/// Rows low <= j < high.
struct Interval {
  int32_t low, high;

  constexpr bool empty() const { return low >= high; }
  constexpr bool holds(int32_t row) const { return low <= row && row < high; }
};

/// Int: of rows. The GPU kernels count in 32 bits.
template <class Int>
struct SequenceOf {
  int32_t index;         // b: in arrays, bias, mask, slopes and sinks
  Int queries, keys;     // used ones, left padding not counted
  Int q_first;           // query 0 in q and out, of batch entry 0 where these are packed, else of entry b
  Int k_batch, k_first;  // key 0 in k and v; paged: k_first is the token that is key 0
  int64_t offset;        // of query 0 among the keys
};

/// Sequence b. Call: with the arrays of fa_forward_args, absent ones null; rows_q, rows_k: of every sequence, where
/// these are not packed; top_left: queries align with the first keys, not with the last.
template <class Int, class Call>
constexpr SequenceOf<Int> sequence_of(const Call &call, Int rows_q, Int rows_k, bool top_left, int32_t b) {
  const auto rows = [b](const int32_t *cumulative, Int all) -> Int {
    return cumulative != nullptr ? cumulative[b + 1] - cumulative[b] : all;
  };
  SequenceOf<Int> s = {};
  s.index = b;
  s.q_first = call.cu_seqlens_q != nullptr ? call.cu_seqlens_q[b] : 0;
  s.queries = call.seqused_q != nullptr ? call.seqused_q[b] : rows(call.cu_seqlens_q, rows_q);
  s.k_batch = call.cu_seqlens_k != nullptr ? 0 : call.kv_batch_idx != nullptr ? call.kv_batch_idx[b] : b;
  s.k_first = call.cu_seqlens_k != nullptr ? call.cu_seqlens_k[b] : 0;
  s.keys = call.seqused_k != nullptr ? call.seqused_k[b] : rows(call.cu_seqlens_k, rows_k);
  if (call.leftpad_k != nullptr) {
    s.k_first += call.leftpad_k[b];
    s.keys -= call.leftpad_k[b];
  }
  s.offset = call.q_offset != nullptr ? call.q_offset[b] : top_left ? 0 : int64_t{s.keys} - s.queries;
  return s;
}

namespace bounds {
constexpr int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
constexpr int64_t larger(int64_t a, int64_t b) {
  return a < b ? b : a;
}
constexpr Interval interval(int64_t low, int64_t high, int64_t origin) {
  return low < high ? Interval{int32_t(low - origin), int32_t(high - origin)} : Interval{0, 0};
}
}  // namespace bounds

/// The keys that the causal mask, the window and the chunk leave to the queries at positions first .. last together,
/// and any between these; empty: {0, 0}. Neither end falls from a position to the next. Bounds: with window_left,
/// window_right (-1: open) and chunk (0: none); keys: of the sequence.
template <class Bounds>
constexpr Interval attended_keys(const Bounds &b, bool causal, int64_t first, int64_t last, int64_t keys) {
  int64_t low = 0, high = keys;
  if (causal) high = bounds::smaller(high, last + 1);
  if (b.window_left >= 0) low = bounds::larger(low, first - b.window_left);
  if (b.window_right >= 0) high = bounds::smaller(high, last + b.window_right + 1);
  if (b.chunk > 0) {
    const auto chunk_of = [&](int64_t position) {  // rounded down
      return position / b.chunk - (position % b.chunk < 0 ? 1 : 0);
    };
    low = bounds::larger(low, chunk_of(first) * b.chunk);
    high = bounds::smaller(high, (chunk_of(last) + 1) * b.chunk);
  }
  return bounds::interval(low, high, 0);
}

/// The queries of a sequence that may attend one of its keys first .. last: all that do, and few others.
template <class Bounds, class Int>
constexpr Interval queries_of_any_key(const Bounds &b, bool causal, const SequenceOf<Int> &s, int64_t first,
                                      int64_t last) {
  int64_t low = s.offset, high = s.queries + s.offset;  // of positions
  if (causal) low = bounds::larger(low, first);
  if (b.window_right >= 0) low = bounds::larger(low, first - b.window_right);
  if (b.window_left >= 0) high = bounds::smaller(high, last + b.window_left + 1);
  if (b.chunk > 0) {
    low = bounds::larger(low, first / b.chunk * b.chunk);
    high = bounds::smaller(high, (last / b.chunk + 1) * b.chunk);
  }
  return bounds::interval(low, high, s.offset);
}

/// The queries of a sequence that attend all of its keys first .. last.
template <class Bounds, class Int>
constexpr Interval queries_of_all_keys(const Bounds &b, bool causal, const SequenceOf<Int> &s, int64_t first,
                                       int64_t last) {
  int64_t low = s.offset, high = s.queries + s.offset;  // of positions
  if (causal) low = bounds::larger(low, last);
  if (b.window_right >= 0) low = bounds::larger(low, last - b.window_right);
  if (b.window_left >= 0) high = bounds::smaller(high, first + b.window_left + 1);
  if (b.chunk > 0) {
    if (first / b.chunk != last / b.chunk) return {0, 0};
    low = bounds::larger(low, first / b.chunk * b.chunk);
    high = bounds::smaller(high, (first / b.chunk + 1) * b.chunk);
  }
  return bounds::interval(low, high, s.offset);
}

}  // namespace fa
