// GroupQueryAttention of com.microsoft. New keys are appended by fa_append, which rotates them and q on the way, and
// the cache is then read where it lies.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "numbers.h"
#include "operator.h"

namespace fa_ort {
namespace {

enum Input {
  query,
  key,
  value,
  past_key,
  past_value,
  seqlens_k,
  total_sequence_length,
  cos_cache,
  sin_cache,
  position_ids,
  attention_bias,
  head_sink,
  k_scale,
  v_scale,
  q_norm_weight,
  k_norm_weight,
  query_seqlens,
  num_inputs
};
enum Output { output, present_key, present_value, output_qk };

class GroupQueryAttention : public Operator {
 public:
  explicit GroupQueryAttention(const Attributes &a)
      : heads_(a.integer("num_heads", 0)),
        kv_heads_(a.integer("kv_num_heads", 0)),
        window_(a.integer("local_window_size", -1)),
        bits_(a.integer("kv_cache_bit_width", 0)),
        causal_(a.integer("causal", 1) != 0),
        rotary_(a.integer("do_rotary", 0) != 0),
        interleaved_(a.integer("rotary_interleaved", 0) != 0),
        smooth_(a.integer("smooth_softmax", 0) > 0),
        window_cache_(a.integer("sliding_window_cache", 0) != 0),
        scale_(a.number("scale", 0)),
        softcap_(a.number("softcap", 0)),
        k_quant_(a.text("k_quant_type", "NONE")),
        v_quant_(a.text("v_quant_type", "NONE")),
        qk_output_(a.integer("qk_output", 0)) {}

  std::string refusal(const Node &node) const override;
  void compute(Call *call) const override;

 private:
  struct Lengths {
    int32_t *past, *total, *queries;  // of each sequence: cached before, cached after, new
    int64_t longest;                  // total_sequence_length
  };

  fa::Desc describe_op(fa_dtype q, fa_dtype cache, int64_t dim) const;
  Lengths lengths(Call *call, int64_t batch, int64_t rows, bool has_past) const;
  fa_tensor cache(const Tensor &tensor, int64_t dim) const;
  fa_tensor scales(const char *name, const Tensor &tensor, const std::string &kind, int64_t dim) const;
  fa_tensor sinks(Call *call, const Tensor &sink) const;
  const int64_t *positions_of(Call *call, const Tensor &positions, int64_t longest) const;
  bool quantised() const { return k_quant_ != "NONE"; }

  int64_t heads_, kv_heads_, window_, bits_;
  bool causal_, rotary_, interleaved_, smooth_, window_cache_;
  float scale_, softcap_;
  std::string k_quant_, v_quant_;
  int64_t qk_output_;
};

fa::Desc GroupQueryAttention::describe_op(fa_dtype q, fa_dtype cache, int64_t dim) const {
  fa::Desc desc = describe();
  desc.dtype_q = q;
  desc.dtype_kv = cache;
  desc.head_dim = dim;
  desc.mask = causal_ ? FA_MASK_CAUSAL : FA_MASK_NONE;
  desc.window_left = window_ > 0 ? window_ - 1 : -1;  // local_window_size counts the query's own key
  desc.softmax_scale = scale_;
  desc.softcap = softcap_;
  return desc;
}

std::string GroupQueryAttention::refusal(const Node &node) const {
  const ONNXTensorElementDataType type = node.input(query).type;
  const Value &past = node.input(past_key);
  if (window_cache_) return "sliding_window_cache is 1: libfa has no cache that drops keys";
  if (qk_output_ != 0 || node.output(output_qk).present)
    return "it returns scores (output_qk), which libfa never stores";
  if (node.input(q_norm_weight).present || node.input(k_norm_weight).present)
    return "q_norm_weight: libfa does not normalise q and k";
  if (node.inputs.size() > num_inputs)
    return "it has " + std::to_string(node.inputs.size()) + " inputs; libfa knows " + std::to_string(int(num_inputs));
  if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0)
    return "num_heads is " + std::to_string(heads_) + " and kv_num_heads " + std::to_string(kv_heads_);
  if (node.input(key).present != node.input(value).present || past.present != node.input(past_value).present)
    return "one of key and value, or of their pasts, is alone";
  if (!node.output(present_key).present || !node.output(present_value).present)
    return "it has no present_key or present_value";
  if (rotary_ && (!node.input(cos_cache).present || !node.input(sin_cache).present))
    return "do_rotary is 1 without cos_cache and sin_cache";
  const ONNXTensorElementDataType cached = node.output(present_key).type;
  if (quantised() != (v_quant_ != "NONE")) return "k_quant_type is " + k_quant_ + " and v_quant_type " + v_quant_;
  if (!quantised() && cached != type)
    return std::string("present_key is ") + type_name(cached) + " without a k_quant_type";
  if (quantised()) {
    for (const std::string &kind : {k_quant_, v_quant_}) {
      if (kind != "PER_TENSOR" && kind != "PER_CHANNEL") return "a quantisation type is " + kind;
    }
    const bool four = cached == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
    if (!four && cached != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 && cached != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN)
      return std::string("its cache is ") + type_name(cached);
    if (four != (bits_ == 4))
      return std::string("its cache is ") + type_name(cached) + " with kv_cache_bit_width " + std::to_string(bits_);
    if (!node.input(k_scale).present || !node.input(v_scale).present)
      return "a quantised cache without k_scale and v_scale";
  }
  const int64_t width = node.input(query).length(-1),
                packed = node.input(key).present ? heads_ : heads_ + 2 * kv_heads_;
  int64_t dim = width > 0 ? width / packed : -1;
  if (dim < 1 && past.present && !quantised()) dim = past.length(3);
  return refusal_of_op(describe_op(dtype_of(type), dtype_of(cached), dim));
}

GroupQueryAttention::Lengths GroupQueryAttention::lengths(Call *call, int64_t batch, int64_t rows,
                                                          bool has_past) const {
  const Tensor last = call->input(seqlens_k), total = call->input(total_sequence_length),
               given = call->input(query_seqlens);
  Scratch &scratch = call->scratch();
  Lengths result = {scratch.take_array<int32_t>(batch), scratch.take_array<int32_t>(batch),
                    scratch.take_array<int32_t>(batch), 0};
  if (last.elements() != batch)
    throw BadInput("seqlens_k has shape " + text_of(last.shape) + "; expected (" + std::to_string(batch) + ")");
  if (total.elements() != 1)
    throw BadInput("total_sequence_length has shape " + text_of(total.shape) + "; expected one element");
  if (given) expect_shape("query_seqlens", given, {batch});
  result.longest = *total.as<int32_t>();
  if (result.longest < 1)
    throw BadInput("total_sequence_length is " + std::to_string(result.longest) + "; expected 1 or more");
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t keys = int64_t(last.as<int32_t>()[b]) + 1;
    const int64_t queries = given ? given.as<int32_t>()[b] : std::min(rows, keys);
    if (keys < 1 || keys > result.longest) {
      throw BadInput("seqlens_k[" + std::to_string(b) + "] is " + std::to_string(keys - 1) +
                     "; expected 0 .. total_sequence_length - 1 = " + std::to_string(result.longest - 1));
    }
    if (queries < 0 || queries > std::min(rows, keys)) {
      throw BadInput("query_seqlens[" + std::to_string(b) + "] is " + std::to_string(queries) + "; expected 0 .. " +
                     std::to_string(std::min(rows, keys)));
    }
    if (!has_past && keys > queries) {
      throw BadInput("seqlens_k[" + std::to_string(b) + "] is " + std::to_string(keys - 1) + " with " +
                     std::to_string(queries) + " new tokens and no past_key");
    }
    result.total[b] = int32_t(keys);
    result.queries[b] = int32_t(queries);
    result.past[b] = int32_t(keys - queries);
  }
  return result;
}

// (batch, heads, rows, dim), seen as (batch, rows, heads, dim).
fa_tensor GroupQueryAttention::cache(const Tensor &tensor, int64_t dim) const {
  const int64_t batch = tensor.shape[0], rows = tensor.shape[2];
  return fa::strided(fa::tensor(tensor.data, tensor.dtype(), batch, rows, kv_heads_, dim), kv_heads_ * rows * dim, dim,
                     rows * dim, 1);
}

fa_tensor GroupQueryAttention::scales(const char *name, const Tensor &tensor, const std::string &kind,
                                      int64_t dim) const {
  const int64_t expected = kind == "PER_TENSOR" ? 1 : kv_heads_ * dim;
  if (tensor.elements() != expected) {
    throw BadInput(std::string(name) + " has shape " + text_of(tensor.shape) + "; expected " +
                   std::to_string(expected) + " elements for " + kind);
  }
  return expected == 1 ? fa::tensor(tensor.as<float>(), 1) : fa::tensor(tensor.as<float>(), 1, 1, kv_heads_, dim);
}

fa_tensor GroupQueryAttention::sinks(Call *call, const Tensor &sink) const {
  auto *const values = call->scratch().take_array<float>(heads_);
  if (sink) expect_shape("head_sink", sink, {heads_});
  for (int64_t h = 0; h < heads_; ++h) values[h] = sink ? to_float(sink.data, sink.dtype(), h) : 0.0F;
  return fa::tensor(values, 1, heads_);
}

// Of a first prompt the operator reads one position, which the others of every sequence follow.
const int64_t *GroupQueryAttention::positions_of(Call *call, const Tensor &positions, int64_t longest) const {
  const auto *given = positions.as<int64_t>();
  const int64_t rows = positions.shape[1];
  if (rows != longest || call->input(query_seqlens)) return given;
  auto *const numbers = call->scratch().take_array<int64_t>(positions.elements());
  for (int64_t i = 0; i < positions.elements(); ++i) numbers[i] = given[0] + i % rows;
  return numbers;
}

void copy_rows(Call *call, const Tensor &from, const Tensor &to, const int32_t *past, const int32_t *total) {
  if (from.data == to.data) return;
  const int64_t heads = to.shape[1], row = to.shape[3] * bytes_of(to.dtype());
  const int64_t from_rows = from ? from.shape[2] : 0, to_rows = to.shape[2];
  call->parallel(to.shape[0] * heads, [&](int64_t i) {
    const int64_t b = i / heads, kept = std::min<int64_t>(past[b], from_rows);
    char *const target = static_cast<char *>(to.data) + i * to_rows * row;
    if (kept > 0) std::memcpy(target, from.as<char>() + i * from_rows * row, size_t(kept * row));
    std::memset(target + total[b] * row, 0, size_t((to_rows - total[b]) * row));
  });
}

void GroupQueryAttention::compute(Call *call) const {
  const Tensor q = call->input(query), k = call->input(key), v = call->input(value);
  const Tensor old_k = call->input(past_key), old_v = call->input(past_value);
  expect_shape("query", q, {-1, -1, -1});
  const int64_t batch = q.shape[0], rows = q.shape[1], width = q.shape[2];
  const int64_t parts = k ? heads_ : heads_ + 2 * kv_heads_, dim = width / parts;
  if (dim < 1 || width % parts != 0)
    throw BadInput("query has shape " + text_of(q.shape) + "; expected a last dimension that " + std::to_string(parts) +
                   " heads divide");
  const Lengths n = lengths(call, batch, rows, bool(old_k));

  const int64_t stored = bits_ == 4 && quantised() ? dim / 2 : dim;
  const int64_t past_rows = old_k ? old_k.shape[2] : 0, capacity = std::max(n.longest, past_rows);
  if (old_k) {
    expect_shape("past_key", old_k, {batch, kv_heads_, -1, stored});
    expect_shape("past_value", old_v, {batch, kv_heads_, past_rows, stored});
    for (int64_t b = 0; b < batch; ++b) {
      if (n.past[b] > past_rows)
        throw BadInput("seqlens_k[" + std::to_string(b) + "] says that " + std::to_string(n.past[b]) +
                       " keys are cached; past_key has " + std::to_string(past_rows) + " rows");
    }
  }
  const Tensor out = call->output(output, {batch, rows, heads_ * dim});
  const Tensor new_k = call->output(present_key, {batch, kv_heads_, capacity, stored});
  const Tensor new_v = call->output(present_value, {batch, kv_heads_, capacity, stored});
  if (batch == 0 || rows == 0) return;
  copy_rows(call, old_k, new_k, n.past, n.total);
  copy_rows(call, old_v, new_v, n.past, n.total);

  const fa_dtype type = q.dtype();
  const auto element = bytes_of(type);
  const auto heads_of = [&](const char *name, const Tensor &own, int64_t first, int64_t count) {
    if (!own) {  // a part of the packed query
      return fa::strided(fa::tensor(q.as<char>() + first * dim * element, type, batch, rows, count, dim), rows * width,
                         width, dim, 1);
    }
    expect_shape(name, own, {batch, rows, count * dim});
    return fa::tensor(own.data, type, batch, rows, count, dim);
  };
  fa::AppendArgs append;
  append.k = heads_of("key", k, heads_, kv_heads_);
  append.v = heads_of("value", v, heads_ + kv_heads_, kv_heads_);
  append.k_cache = cache(new_k, dim);
  append.v_cache = cache(new_v, dim);
  append.cache_seqlens = n.past;
  append.seqused_new = n.queries;

  fa::ForwardArgs forward;
  forward.q = k ? fa::tensor(q.data, type, batch, rows, heads_, dim) : heads_of("query", Tensor(), 0, heads_);
  if (rotary_) {
    const Tensor cos = call->input(cos_cache), sin = call->input(sin_cache), positions = call->input(position_ids);
    expect_shape("cos_cache", cos, {-1, -1});
    expect_shape("sin_cache", sin, cos.shape);
    append.rotary_cos = fa::tensor(cos.data, cos.dtype(), 1, cos.shape[0], 1, cos.shape[1]);
    append.rotary_sin = fa::tensor(sin.data, sin.dtype(), 1, sin.shape[0], 1, sin.shape[1]);
    append.flags = interleaved_ ? FA_APPEND_ROTARY_INTERLEAVED : 0;
    if (positions) {
      expect_shape("position_ids", positions, {batch, rows});
      append.positions = fa::tensor(positions_of(call, positions, n.longest), batch, rows);
    }
    append.q = forward.q;
    append.q_out =
        fa::tensor(call->scratch().take(size_t(batch * rows * heads_ * dim * element)), type, batch, rows, heads_, dim);
    forward.q = append.q_out;
  }
  const fa::Desc desc = describe_op(type, new_k.dtype(), dim);
  if (quantised()) {
    append.k_scale = scales("k_scale", call->input(k_scale), k_quant_, dim);
    append.v_scale = scales("v_scale", call->input(v_scale), v_quant_, dim);
    if (bits_ == 4) {  // a nibble is the code plus 8
      static const float eight = 8;
      append.k_zero = append.v_zero = fa::tensor(&eight, 1);
    }
  }
  call->append(desc, append);

  forward.k = append.k_cache;
  forward.v = append.v_cache;
  forward.k.shape[1] = forward.v.shape[1] = n.longest;
  forward.k_scale = append.k_scale;
  forward.v_scale = append.v_scale;
  forward.k_zero = append.k_zero;
  forward.v_zero = append.v_zero;
  forward.out = fa::tensor(out.data, type, batch, rows, heads_, dim);
  forward.seqused_k = n.total;
  forward.seqused_q = n.queries;
  forward.q_offset = n.past;
  if (const Tensor bias = call->input(attention_bias)) {
    expect_shape("attention_bias", bias, {-1, -1, rows, n.longest});
    forward.bias = fa::tensor(bias.data, bias.dtype(), bias.shape[0], bias.shape[1], rows, n.longest);
  }
  const Tensor sink = call->input(head_sink);
  if (smooth_ || sink) forward.sinks = sinks(call, sink);
  call->forward(desc, forward);
  for (int64_t b = 0; b < batch; ++b) {  // rows without a token
    const int64_t row = heads_ * dim * element, first = b * rows + n.queries[b];
    std::memset(static_cast<char *>(out.data) + first * row, 0, size_t((rows - n.queries[b]) * row));
  }
}

}  // namespace

std::unique_ptr<Operator> make_group_query_attention(const Attributes &attributes) {
  return std::make_unique<GroupQueryAttention>(attributes);
}

}  // namespace fa_ort
