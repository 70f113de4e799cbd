// ONNX's Attention, versions 23 to 25.
#include <algorithm>

#include "layout.h"
#include "operator.h"

namespace fa_ort {
namespace {

enum Input { query, key, value, attn_mask, past_key, past_value, nonpad_kv_seqlen, num_inputs };
enum Output { result, present_key, present_value, qk_matmul_output };

class Attention : public Operator {
 public:
  explicit Attention(const Attributes &a)
      : causal_(a.integer("is_causal", 0) != 0),
        q_heads_(a.integer("q_num_heads", 0)),
        kv_heads_(a.integer("kv_num_heads", 0)),
        left_(a.integer("left_window_size", -1)),
        right_(a.integer("right_window_size", -1)),
        precision_(a.integer("softmax_precision", 0)),
        scale_(a.number("scale", 0)),
        softcap_(a.number("softcap", 0)) {}

  std::string refusal(const Node &node) const override;
  void compute(Call *call) const override;

 private:
  fa::Desc describe_op(fa_dtype q, int64_t dim, int64_t dim_v) const;

  bool causal_;
  int64_t q_heads_, kv_heads_, left_, right_, precision_;
  float scale_, softcap_;
};

fa::Desc Attention::describe_op(fa_dtype q, int64_t dim, int64_t dim_v) const {
  fa::Desc desc = describe();
  desc.dtype_q = q;
  desc.head_dim = dim;
  desc.head_dim_v = dim_v;
  desc.mask = causal_ ? FA_MASK_CAUSAL : FA_MASK_NONE;
  desc.window_left = left_;
  desc.window_right = right_;
  desc.softmax_scale = scale_;
  desc.softcap = softcap_;
  return desc;
}

std::string Attention::refusal(const Node &node) const {
  const Value &q = node.input(query), &v = node.input(value), &mask = node.input(attn_mask);
  if (node.inputs.size() > num_inputs)
    return "it has " + std::to_string(node.inputs.size()) + " inputs; libfa knows " + std::to_string(int(num_inputs));
  if (node.output(qk_matmul_output).present) return "it returns scores (qk_matmul_output), which libfa never stores";
  if (precision_ == 11) return "softmax_precision is double; libfa's is float";
  if (node.input(key).type != q.type || v.type != q.type) return "Q, K and V differ in type";
  if (node.input(past_key).present != node.input(past_value).present) return "one of past_key and past_value is alone";
  if (mask.present && mask.type != q.type && mask.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL)
    return std::string("attn_mask is ") + type_name(mask.type);
  if (mask.present && (mask.shape.empty() || mask.shape.size() > 4)) return "the rank of attn_mask is not known";
  if (mask.present && mask.length(-1) < 2)
    return "the last dimension of attn_mask is 1 or not known: it may be repeated";
  if (q.shape.size() != 3 && q.shape.size() != 4) return "the rank of Q is not known";
  if (q.shape.size() == 3 && (q_heads_ < 1 || kv_heads_ < 1))
    return "Q has 3 dimensions without q_num_heads and kv_num_heads";
  const auto dim = [&](const Value &value, int64_t heads) {
    const int64_t width = value.length(-1);
    return value.shape.size() == 4 ? width : width > 0 && heads > 0 ? width / heads : -1;
  };
  const int64_t dim_v = dim(v, kv_heads_);
  return dim_v < 1 ? "the head dimension of V is not known before it runs"
                   : refusal_of_op(describe_op(dtype_of(q.type), dim(q, q_heads_), dim_v));
}

void Attention::compute(Call *call) const {
  const Tensor q = call->input(query), k = call->input(key), v = call->input(value), mask = call->input(attn_mask);
  const Tensor old_k = call->input(past_key), old_v = call->input(past_value), used = call->input(nonpad_kv_seqlen);
  fa::ForwardArgs args;
  args.q = heads_of("Q", q, q_heads_);
  args.k = heads_of("K", k, kv_heads_);
  args.v = heads_of("V", v, kv_heads_);
  expect_same_lengths(args.q, args.k, args.v);
  const int64_t batch = args.q.shape[0], rows = args.q.shape[1], count = args.q.shape[2], kv_count = args.k.shape[2];
  const int64_t dim = args.q.shape[3], dim_v = args.v.shape[3];
  const int64_t past = old_k ? old_k.shape.at(2) : 0;
  if (old_k) expect_shape("past_key", old_k, {batch, kv_count, past, dim});
  if (old_v) expect_shape("past_value", old_v, {batch, kv_count, past, dim_v});
  const Joined joined_k = join(call, present_key, old_k, args.k), joined_v = join(call, present_value, old_v, args.v);
  args.k = joined_k.all;
  args.v = joined_v.all;
  const int64_t keys = args.k.shape[1];

  int32_t *const offset = call->scratch().take_array<int32_t>(batch);
  int32_t *const lengths = call->scratch().take_array<int32_t>(batch);
  if (used) expect_shape("nonpad_kv_seqlen", used, {batch});
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = used ? used.as<int64_t>()[b] : keys;
    if (length < 0 || length > keys)
      throw BadInput("nonpad_kv_seqlen[" + std::to_string(b) + "] is " + std::to_string(length) + "; expected 0 .. " +
                     std::to_string(keys));
    offset[b] = int32_t(used ? length - rows : past);
    lengths[b] = int32_t(length);
  }
  args.q_offset = offset;

  if (mask) {
    int64_t shape[4] = {1, 1, 1, 1};
    for (size_t i = 0; i < mask.shape.size(); ++i) shape[4 - mask.shape.size() + i] = mask.shape[i];
    const bool fits = (shape[0] == 1 || shape[0] == batch) && (shape[1] == 1 || shape[1] == count) &&
                      (shape[2] == 1 || shape[2] == rows) && shape[3] <= keys;
    if (!fits)
      throw BadInput("attn_mask has shape " + text_of(mask.shape) + "; expected one that repeats to " +
                     text_of({batch, count, rows, keys}));
    args.k.shape[1] = args.v.shape[1] = shape[3];  // keys past the mask's columns are hidden
    for (int64_t b = 0; b < batch; ++b) lengths[b] = std::min(lengths[b], int32_t(shape[3]));
    (mask.dtype() == FA_BOOL ? args.mask : args.bias) =
        fa::tensor(mask.data, mask.dtype(), shape[0], shape[1], shape[2], shape[3]);
  }
  if (used) args.seqused_k = lengths;

  const bool four = q.shape.size() == 4;
  const Tensor out = call->output(result, four ? std::vector<int64_t>{batch, count, rows, dim_v}
                                               : std::vector<int64_t>{batch, rows, count * dim_v});
  args.out = four ? heads_first(out) : fa::tensor(out.data, out.dtype(), batch, rows, count, dim_v);
  forward_over(call, describe_op(q.dtype(), dim, dim_v), args, joined_k, joined_v);
}

}  // namespace

std::unique_ptr<Operator> make_attention(const Attributes &attributes) {
  return std::make_unique<Attention>(attributes);
}

}  // namespace fa_ort
