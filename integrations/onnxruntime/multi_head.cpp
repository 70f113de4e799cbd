// MultiHeadAttention of com.microsoft. A hidden key of it has mask_filter_value added to its score, which is a bias
// here.
#include <algorithm>

#include "layout.h"
#include "numbers.h"
#include "operator.h"

namespace fa_ort {
namespace {

enum Input {
  query,
  key,
  value,
  bias,
  key_padding_mask,
  attention_bias,
  past_key,
  past_value,
  past_sequence_length,
  cache_indirection,
  num_inputs
};
enum Output { output, present_key, present_value, qk };

class MultiHeadAttention : public Operator {
 public:
  explicit MultiHeadAttention(const Attributes &a)
      : heads_(a.integer("num_heads", 0)),
        causal_(a.integer("unidirectional", 0) != 0),
        scale_(a.number("scale", 0)),
        hidden_(a.number("mask_filter_value", -10000)) {}

  std::string refusal(const Node &node) const override;
  void compute(Call *call) const override;

 private:
  fa::Desc describe_op(fa_dtype q, int64_t dim, int64_t dim_v, bool causal) const;
  void hide(Call *call, const Tensor &mask, const Tensor &added, fa::ForwardArgs *args) const;

  int64_t heads_;
  bool causal_;
  float scale_, hidden_;
};

fa::Desc MultiHeadAttention::describe_op(fa_dtype q, int64_t dim, int64_t dim_v, bool causal) const {
  fa::Desc desc = describe();
  desc.dtype_q = q;
  desc.head_dim = dim;
  desc.head_dim_v = dim_v;
  desc.mask = causal ? FA_MASK_CAUSAL : FA_MASK_NONE;
  desc.softmax_scale = scale_;
  return desc;
}

std::string MultiHeadAttention::refusal(const Node &node) const {
  const Value &q = node.input(query), &k = node.input(key), &v = node.input(value),
              &mask = node.input(key_padding_mask);
  if (node.inputs.size() > num_inputs) {
    return "it has " + std::to_string(node.inputs.size()) + " inputs; libfa knows " + std::to_string(int(num_inputs));
  }
  if (heads_ < 1) return "num_heads is " + std::to_string(heads_);
  if (node.output(qk).present) return "it returns scores (qk), which libfa never stores";
  if (node.input(past_sequence_length).present || node.input(cache_indirection).present) {
    return "past_sequence_length or cache_indirection: the cache of a beam search";
  }
  if (q.shape.size() != 3 || !k.present || !v.present)
    return "q, k and v are packed, or the rank of query is not known";
  if ((k.shape.size() != 3 && k.shape.size() != 4) || v.shape.size() != k.shape.size()) {
    return "key and value are packed, or their rank is not known";
  }
  if (node.input(past_key).present != node.input(past_value).present) return "one of past_key and past_value is alone";
  if (node.input(past_key).present && k.shape.size() == 4) return "past_key with a key of 4 dimensions";
  if (node.input(bias).present && q.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    return std::string("bias with ") + type_name(q.type) + "; libfa adds it to float32";
  }
  if (node.input(bias).present && k.shape.size() == 4) return "bias with a key of 4 dimensions";
  if (mask.present && (mask.shape.empty() || mask.shape.size() > 3)) return "the rank of key_padding_mask is not known";
  const auto dim = [&](const Value &tensor) {
    const int64_t width = tensor.length(-1);
    return tensor.shape.size() == 4 ? width : width > 0 ? width / heads_ : -1;
  };
  if (dim(v) < 1) return "the head dimension of value is not known before it runs";
  return refusal_of_op(describe_op(dtype_of(q.type), dim(q), dim(v), causal_));
}

// A tensor plus elements first .. of the bias, which each row has.
fa_tensor biased(Call *call, const fa_tensor &t, const float *added) {
  const int64_t width = t.shape[2] * t.shape[3];
  auto *const sum = call->scratch().take_array<float>(t.shape[0] * t.shape[1] * width);
  const auto *from = static_cast<const float *>(t.data);
  call->parallel(t.shape[0] * t.shape[1], [&](int64_t row) {
    for (int64_t i = 0; i < width; ++i) sum[row * width + i] = from[row * width + i] + added[i];
  });
  return fa::tensor(sum, t.shape[0], t.shape[1], t.shape[2], t.shape[3]);
}

// The padding mask and attention_bias, as keys in use or as one bias.
void MultiHeadAttention::hide(Call *call, const Tensor &mask, const Tensor &added, fa::ForwardArgs *args) const {
  const int64_t batch = args->q.shape[0], rows = args->q.shape[1], keys = args->k.shape[1];
  if (added) {
    expect_shape("attention_bias", added, {-1, -1, rows, keys});
    expect_shape("attention_bias", added,
                 {added.shape[0] == 1 ? 1 : batch, added.shape[1] == 1 ? 1 : heads_, rows, keys});
    args->bias = fa::tensor(added.data, added.dtype(), added.shape[0], added.shape[1], rows, keys);
  }
  if (!mask) return;
  if (mask.shape.size() == 3) expect_shape("key_padding_mask", mask, {batch, rows, keys});
  if (mask.shape.size() == 2) expect_shape("key_padding_mask", mask, {batch, keys});
  const auto *shown = mask.as<int32_t>();
  if (mask.shape.size() == 1) {
    // Of 3 * batch + 2 numbers the first are the lengths, and all that ONNX Runtime's own kernel reads.
    expect_shape("key_padding_mask", mask, {mask.shape[0] == 3 * batch + 2 ? 3 * batch + 2 : batch});
    const auto in_range = [&](int32_t length) { return length >= 1 && length <= keys; };
    if (std::all_of(shown, shown + batch, in_range)) {  // a sequence without keys is the mean of all, by the bias below
      args->seqused_k = shown;
      return;
    }
  }
  const int64_t b_rows = added ? rows : mask.shape.size() == 3 ? rows : 1, b_heads = added ? added.shape[1] : 1;
  auto *const sum = call->scratch().take_array<float>(batch * b_heads * b_rows * keys);
  call->parallel(batch * b_heads, [&](int64_t i) {
    const int64_t b = i / b_heads, h = i % b_heads;
    for (int64_t r = 0; r < b_rows; ++r) {
      float *const row = sum + (i * b_rows + r) * keys;
      const int64_t from = added ? (((added.shape[0] == 1 ? 0 : b) * b_heads + h) * rows + r) * keys : 0;
      for (int64_t j = 0; j < keys; ++j) {
        const bool seen = mask.shape.size() == 1   ? j < shown[b]
                          : mask.shape.size() == 2 ? shown[b * keys + j] > 0
                                                   : shown[(b * rows + r) * keys + j] > 0;
        row[j] = (seen ? 0 : hidden_) + (added ? to_float(added.data, added.dtype(), from + j) : 0);
      }
    }
  });
  args->bias = fa::tensor(sum, batch, b_heads, b_rows, keys);
}

// The causal mask of fewer queries than new keys: ONNX Runtime's own kernel lets the last query attend all.
fa_tensor all_for_last(Call *call, int64_t rows, int64_t keys, int64_t past) {
  auto *const shown = call->scratch().take_array<uint8_t>(rows * keys);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < keys; ++j) shown[i * keys + j] = i == rows - 1 || j <= past + i;
  }
  return fa::tensor(shown, FA_BOOL, 1, 1, rows, keys);
}

void MultiHeadAttention::compute(Call *call) const {
  const Tensor q = call->input(query), old_k = call->input(past_key), old_v = call->input(past_value);
  fa::ForwardArgs args;
  args.q = heads_of("query", q, heads_);
  args.k = heads_of("key", call->input(key), heads_);
  args.v = heads_of("value", call->input(value), heads_);
  expect_same_lengths(args.q, args.k, args.v);
  const int64_t batch = args.q.shape[0], rows = args.q.shape[1], dim = args.q.shape[3], dim_v = args.v.shape[3];
  if (const Tensor sum = call->input(bias)) {
    expect_shape("bias", sum, {heads_ * (2 * dim + dim_v)});
    args.q = biased(call, args.q, sum.as<float>());
    args.k = biased(call, args.k, sum.as<float>() + heads_ * dim);
    args.v = biased(call, args.v, sum.as<float>() + 2 * heads_ * dim);
  }
  const int64_t past = old_k ? old_k.shape.at(2) : 0;
  if (old_k) expect_shape("past_key", old_k, {batch, heads_, past, dim});
  if (old_v) expect_shape("past_value", old_v, {batch, heads_, past, dim_v});
  const Joined joined_k = join(call, present_key, old_k, args.k), joined_v = join(call, present_value, old_v, args.v);
  args.k = joined_k.all;
  args.v = joined_v.all;
  auto *const offset = call->scratch().take_array<int32_t>(batch);
  std::fill(offset, offset + batch, int32_t(past));
  args.q_offset = offset;
  hide(call, call->input(key_padding_mask), call->input(attention_bias), &args);
  const Tensor out = call->output(output, {batch, rows, heads_ * dim_v});
  args.out = fa::tensor(out.data, out.dtype(), batch, rows, heads_, dim_v);
  const bool more_keys = rows < args.k.shape[1] - past, causal = causal_ && !more_keys;
  if (causal_ && more_keys && rows > 1) args.mask = all_for_last(call, rows, args.k.shape[1], past);
  forward_over(call, describe_op(q.dtype(), dim, dim_v, causal), args, joined_k, joined_v);
}

}  // namespace

std::unique_ptr<Operator> make_multi_head_attention(const Attributes &attributes) {
  return std::make_unique<MultiHeadAttention>(attributes);
}

}  // namespace fa_ort
