#include "cpu/sequences.h"

#include "cpu/contents.h"
#include "cpu/tile.h"

namespace fa::cpu {

namespace {

/// Rows of q (of k) that belong to sequence b before seqused and leftpad.
int64_t rows_of(const int32_t *cumulative, int64_t rows, int64_t b) {
  return cumulative != nullptr ? cumulative[b + 1] - cumulative[b] : rows;
}

/// Checks the pages that kernels read, from the first key of a block on.
fa_status check_pages(const Inputs &p, int64_t b, const Sequence &s) {
  const Interval keys = s.attended(*p.attention);
  if (keys.low == keys.high) return FA_OK;
  const Pages pages = pages_of(p, s, b);
  const int64_t last = page_index(pages, keys.high - 1);
  for (int64_t i = page_index(pages, keys.low / max_key_block * max_key_block); i <= last; i++) {
    if (const fa_status status = check_page(b, i, page_entry(pages, i), p.batch_k, "k")) return status;
  }
  return FA_OK;
}

fa_status check_sequence(const Inputs &p, int64_t b) {
  const int64_t rows_q = rows_of(p.cu_seqlens_q, p.rows_q, b);
  const int64_t rows_k = rows_of(p.cu_seqlens_k, p.rows_k, b);
  if (p.seqused_q != nullptr)
    if (const fa_status status = check_range("seqused_q", b, p.seqused_q[b], rows_q, "the queries of the sequence"))
      return status;
  if (p.seqused_k != nullptr)
    if (const fa_status status = check_range("seqused_k", b, p.seqused_k[b], rows_k, "the keys of the sequence"))
      return status;
  const int64_t used_k = p.seqused_k != nullptr ? p.seqused_k[b] : rows_k;
  if (p.leftpad_k != nullptr)
    if (const fa_status status = check_range("leftpad_k", b, p.leftpad_k[b], used_k, "the used keys of the sequence"))
      return status;
  if (p.kv_batch_idx != nullptr)
    if (const fa_status status = check_range("kv_batch_idx", b, p.kv_batch_idx[b], p.batch_k - 1, "a row of args.k"))
      return status;
  const Sequence s = resolve_sequence(p, b);
  if (const fa_status status = check_bound("max_seqlen_q", b, s.queries, p.max_seqlen_q)) return status;
  if (const fa_status status = check_bound("max_seqlen_k", b, s.keys, p.max_seqlen_k)) return status;
  return p.page_size > 0 ? check_pages(p, b, s) : FA_OK;
}

}  // namespace

fa_status check_sequences(const Inputs &p) {
  if (const fa_status status = check_lengths("cu_seqlens_q", p.cu_seqlens_q, p.batch, p.rows_q, "q")) return status;
  if (const fa_status status = check_lengths("cu_seqlens_k", p.cu_seqlens_k, p.batch, p.rows_k, "k")) return status;
  for (int64_t b = 0; b < p.batch; b++)
    if (const fa_status status = check_sequence(p, b)) return status;
  return FA_OK;
}

Sequence resolve_sequence(const Inputs &p, int64_t b) {
  const bool top_left = p.attention->mask == FA_MASK_CAUSAL_TOP_LEFT;
  return {sequence_of(p, p.rows_q, p.rows_k, top_left, static_cast<int32_t>(b)), p.cu_seqlens_q != nullptr ? 0 : b};
}

Pages pages_of(const Inputs &p, const Sequence &s, int64_t b) {
  if (p.page_size == 0) return {};
  return {p.block_table.at(b, 0, 0), p.block_table.stride[1], p.page_size, s.k_first};
}

CacheRows cache_rows(const Inputs &p, const View &tensor, const Sequence &s, int64_t head) {
  char *data = p.page_size > 0 ? tensor.at(0, 0, head) : tensor.at(s.k_batch, s.k_first, head);
  return {data, tensor.stride[1], tensor.stride[3], tensor.stride[2], tensor.stride[0], tensor.dtype};
}

}  // namespace fa::cpu
