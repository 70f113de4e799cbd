#include "reference/call.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reference {
namespace {

const void *element(const fa_tensor &t, fa_dtype dtype, int64_t i, int64_t j, int64_t k, int64_t l) {
  const int64_t offset = i * t.stride[0] + j * t.stride[1] + k * t.stride[2] + l * t.stride[3];
  const int64_t unit = unit_elements(dtype);
  return static_cast<const char *>(t.data) + offset / unit * row_bytes(dtype, unit);
}

Elements row(const fa_tensor &t, fa_dtype dtype, int64_t i, int64_t j, int64_t k) {
  return {element(t, dtype, i, j, k, 0), t.stride[3] * row_bytes(dtype, unit_elements(dtype)), dtype};
}

/// The factors of row (i, j, k) of a tensor with `dim` elements a row.
Elements::Factors factors(const fa_tensor &t, int64_t i, int64_t j, int64_t k, int64_t dim) {
  if (!t.data) return {};
  const fa_dtype dtype = t.dtype ? t.dtype : FA_F32;
  const auto index = [&](int dimension, int64_t at) { return t.shape[dimension] == 1 ? 0 : at; };
  const void *first = element(t, dtype, index(0, i), index(1, j), index(2, k), 0);
  return {static_cast<const char *>(first), t.stride[3] * dtype_bytes(dtype), dtype, dim / t.shape[3]};
}

/// An element of an optional tensor whose dimensions may be 1 and are then repeated.
double repeated(const fa_tensor &t, fa_dtype type_if_default, int64_t i, int64_t j, int64_t k, int64_t l) {
  const fa_dtype dtype = t.dtype ? t.dtype : type_if_default;
  const auto index = [&](int dimension, int64_t at) { return t.shape[dimension] == 1 ? 0 : at; };
  return load(element(t, dtype, index(0, i), index(1, j), index(2, k), index(3, l)), dtype);
}

int64_t floor_divide(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

}  // namespace

Call::Call(const fa_desc &desc_in, const fa_forward_args &args_in) : desc(desc_in), args(args_in) {
  const bool packed = args.cu_seqlens_q || args.cu_seqlens_k;
  const int64_t count = packed ? args.num_seqs : args.q.shape[0];
  for (int64_t b = 0; b < count; ++b) {
    Sequence s{};
    s.index = b;

    s.q_batch = args.cu_seqlens_q ? 0 : b;
    s.q_row = args.cu_seqlens_q ? args.cu_seqlens_q[b] : 0;
    s.queries = args.cu_seqlens_q ? args.cu_seqlens_q[b + 1] - args.cu_seqlens_q[b] : args.q.shape[1];
    if (args.seqused_q) s.queries = args.seqused_q[b];

    s.k_batch = args.cu_seqlens_k ? 0 : args.kv_batch_idx ? args.kv_batch_idx[b] : b;
    s.k_row = args.cu_seqlens_k ? args.cu_seqlens_k[b] : 0;
    s.keys = args.cu_seqlens_k       ? args.cu_seqlens_k[b + 1] - args.cu_seqlens_k[b]
             : args.block_table.data ? args.block_table.shape[1] * args.k.shape[1]
                                     : args.k.shape[1];
    if (args.seqused_k) s.keys = args.seqused_k[b];
    if (args.leftpad_k) {
      s.k_row += args.leftpad_k[b];
      s.keys = std::max<int64_t>(0, s.keys - args.leftpad_k[b]);
    }

    s.offset = desc.mask == FA_MASK_CAUSAL_TOP_LEFT ? 0 : s.keys - s.queries;
    if (args.q_offset) s.offset = args.q_offset[b];
    sequences.push_back(s);
  }
}

double Call::scale() const {
  return desc.softmax_scale != 0 ? desc.softmax_scale : 1 / std::sqrt(double(dim()));
}

Elements Call::q(const Sequence &s, int64_t i, int64_t head) const {
  return row(args.q, q_type(), s.q_batch, s.q_row + i, head);
}

Elements Call::k(const Sequence &s, int64_t j, int64_t head) const {
  Elements elements = kv_row(args.k, kv_type(), args.k_scale, args.k_zero, s, j, head);
  if (!args.k_rope.data) return elements;
  const auto [batch, at] = cache_row(s, j);
  const fa_dtype dtype = k_rope_type();
  elements.tail = {static_cast<const char *>(element(args.k_rope, dtype, batch, at, head, 0)),
                   args.k_rope.stride[3] * dtype_bytes(dtype), dtype, args.k.shape[3]};
  return elements;
}

Elements Call::v(const Sequence &s, int64_t j, int64_t head) const {
  return kv_row(args.v, v_type(), args.v_scale, args.v_zero, s, j, head);
}

Elements Call::kv_row(const fa_tensor &tensor, fa_dtype dtype, const fa_tensor &scale, const fa_tensor &zero,
                      const Sequence &s, int64_t j, int64_t head) const {
  const auto [batch, at] = cache_row(s, j);
  Elements elements = row(tensor, dtype, batch, at, head);
  elements.scale = factors(scale, batch, at, head, tensor.shape[3]);
  elements.zero = factors(zero, batch, at, head, tensor.shape[3]);
  return elements;
}

Call::CacheRow Call::cache_row(const Sequence &s, int64_t j) const {
  const int64_t token = s.k_row + j;
  if (!args.block_table.data) return {s.k_batch, token};
  const int64_t page_size = args.k.shape[1];
  const auto page = int64_t(load(element(args.block_table, FA_I32, s.index, token / page_size, 0, 0), FA_I32));
  return {page, token % page_size};
}

double Call::bias(const Sequence &s, int64_t head, int64_t i, int64_t j) const {
  return args.bias.data ? repeated(args.bias, FA_F32, s.index, head, i, j) : 0;
}

double Call::slope(const Sequence &s, int64_t head) const {
  return args.alibi_slopes.data ? repeated(args.alibi_slopes, FA_F32, s.index, head, 0, 0) : 0;
}

double Call::sink(const Sequence &s, int64_t head) const {
  return args.sinks.data ? repeated(args.sinks, FA_F32, s.index, head, 0, 0) : -std::numeric_limits<double>::infinity();
}

int64_t Call::depth(const Sequence &s, int64_t token) const {
  return int64_t(repeated(args.tree_depth, FA_I32, s.q_batch, s.q_row + token, 0, 0));
}

int64_t Call::query_position(const Sequence &s, int64_t i) const {
  return s.offset + (args.tree_depth.data ? depth(s, i) : i);
}

int64_t Call::key_position(const Sequence &s, int64_t j) const {
  const bool is_new = j >= s.offset && j < s.offset + s.queries;
  return args.tree_depth.data && is_new ? s.offset + depth(s, j - s.offset) : j;
}

bool Call::in_tree(const Sequence &s, int64_t head, int64_t i, int64_t j) const {
  const int64_t bit = j - s.offset;
  if (bit < 0 || bit >= s.queries) return bit < 0;
  const double word = repeated(args.tree_mask, FA_I32, s.q_batch, head, s.q_row + i, bit / 32);
  return uint32_t(int32_t(word)) >> bit % 32 & 1;
}

bool Call::attends(const Sequence &s, int64_t head, int64_t i, int64_t j) const {
  if (args.tree_mask.data) {
    if (!in_tree(s, head, i, j)) return false;
  } else if (desc.mask != FA_MASK_NONE && j > i + s.offset) {
    return false;
  }
  const int64_t p = query_position(s, i), at = key_position(s, j);
  if (desc.window_left >= 0 && p - at > desc.window_left) return false;
  if (desc.window_right >= 0 && at - p > desc.window_right) return false;
  if (desc.attention_chunk > 0 && floor_divide(at, desc.attention_chunk) != floor_divide(p, desc.attention_chunk)) {
    return false;
  }
  return !args.mask.data || repeated(args.mask, FA_BOOL, s.index, head, i, j) != 0;
}

}  // namespace reference
