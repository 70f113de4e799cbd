#include "attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fa.hpp>
#include <vector>

#include "host.h"
#include "mask.h"
#include "plugin/half.h"
#include "plugin/op_cache.h"
#include "queries.h"

namespace fa_ggml {
namespace {

constexpr int64_t bias_elements = int64_t(8) << 20;  // of a mask times slopes, at a time

struct Element {
  ggml_type type;
  fa_dtype dtype;
  const char *name;
  int64_t bytes, elements;  // of a block
};

constexpr Element elements[] = {{GGML_TYPE_F32, FA_F32, "f32", 4, 1},
                                {GGML_TYPE_F16, FA_F16, "f16", 2, 1},
                                {GGML_TYPE_BF16, FA_BF16, "bf16", 2, 1},
                                {GGML_TYPE_Q8_0, FA_Q8_0, "q8_0", 34, 32},
                                {GGML_TYPE_Q4_0, FA_Q4_0, "q4_0", 18, 32}};

const Element *element(ggml_type type) {
  for (const Element &each : elements) {
    if (each.type == type) return &each;
  }
  return nullptr;
}

std::shared_ptr<const fa::Op> op_of(const fa_desc &desc) {
  static fa_plugin::OpCache ops;
  return ops.op(desc);
}

struct Parameters {
  float scale, max_bias, softcap;
};

Parameters parameters(const ggml_tensor &op) {
  Parameters result;
  std::memcpy(&result, op.op_params, sizeof result);
  return result;
}

// A tensor of ggml, (dim, sequence, heads, batch) with strides in bytes, as one of libfa.
fa_tensor tensor(const ggml_tensor &t) {
  const Element &each = *element(t.type);
  const auto stride = [&](int i) { return int64_t(t.nb[i]) / each.bytes * each.elements; };
  return fa::strided(fa::tensor(t.data, each.dtype, t.ne[3], t.ne[1], t.ne[2], t.ne[0]), stride(3), stride(1),
                     stride(2), each.elements == 1 ? stride(0) : 1);
}

fa::Desc describe(const ggml_tensor &op, int32_t threads) {
  const Parameters p = parameters(op);
  fa::Desc desc;
  desc.device = FA_DEVICE_CPU;
  desc.dtype_q = desc.dtype_out = FA_F32;
  desc.dtype_kv = element(op.src[1]->type)->dtype;
  desc.dtype_v = element(op.src[2]->type)->dtype;
  desc.head_dim = op.src[0]->ne[0];
  desc.head_dim_v = op.src[2]->ne[0];
  desc.softmax_scale = p.scale;
  desc.softcap = p.softcap;
  desc.num_threads = std::clamp<int32_t>(threads, 1, FA_MAX_THREADS);
  return desc;
}

std::string type_of(const ggml_tensor &t) {
  return host().ggml_type_name(t.type);
}

std::string shape(const ggml_tensor &t) {
  std::string text = "(";
  for (int i = 0; i < 4; ++i) text += (i ? ", " : "") + std::to_string(t.ne[i]);
  return text + ")";
}

// "" where libfa can read the tensor, else the reason.
std::string bad_layout(const char *name, const ggml_tensor &t) {
  const Element *each = element(t.type);
  if (!each) return std::string(name) + " has type " + type_of(t) + "; libfa reads f32, f16, bf16, q8_0 and q4_0";
  if (each->elements > 1 && int64_t(t.nb[0]) != each->bytes) {
    return std::string(name) + " is " + each->name + " with gaps between its blocks";
  }
  for (int i = 0; i < 4; ++i) {
    if (t.nb[i] % each->bytes != 0) {
      return std::string(name) + "'s stride " + std::to_string(i) + ", " + std::to_string(t.nb[i]) +
             " bytes, is no multiple of an element of " + each->name + ", " + std::to_string(each->bytes) + " bytes";
    }
    if (t.ne[i] > INT32_MAX) return std::string(name) + " has shape " + shape(t) + ", longer than 2^31 - 1";
  }
  return "";
}

std::string bad_mask(const ggml_tensor &mask, const ggml_tensor &q, const ggml_tensor &k) {
  const int64_t rows = mask.ne[1], heads = mask.ne[2], batch = mask.ne[3];
  if (mask.type != GGML_TYPE_F16) return "mask has type " + type_of(mask) + "; libfa reads f16";
  if (mask.nb[0] != 2 || int64_t(mask.nb[1]) != 2 * mask.ne[0] || mask.nb[2] % 2 != 0 || mask.nb[3] % 2 != 0) {
    return "mask has gaps between its elements";
  }
  if (mask.ne[0] != k.ne[1] || rows < q.ne[1] || (heads != 1 && heads != q.ne[2]) || (batch != 1 && batch != q.ne[3])) {
    return "mask has shape " + shape(mask) + " for q of " + shape(q) + " and k of " + shape(k) +
           "; libfa repeats a mask over all heads and over all sequences alone";
  }
  return "";
}

// ---- masks

Mask plane_of(const ggml_tensor &mask, const ggml_tensor &q) {
  return {static_cast<const uint16_t *>(mask.data), mask.ne[0], q.ne[1], mask.ne[3] == 1 ? 0 : int64_t(mask.nb[3] / 2),
          q.ne[3]};
}

fa_tensor bias_of(const ggml_tensor &mask, const ggml_tensor &q) {
  const auto stride = [&](int i) { return int64_t(mask.nb[i] / 2); };
  return fa::strided(fa::tensor(mask.data, FA_F16, mask.ne[3], mask.ne[2], q.ne[1], mask.ne[0]), stride(3), stride(2),
                     stride(1), 1);
}

// ggml's slopes of ALiBi.
std::vector<float> slopes_of(int64_t heads, float max_bias) {
  const int64_t power = int64_t(std::bit_floor(uint64_t(heads)));
  const float even = std::exp2(-max_bias / float(power)), odd = std::exp2(-max_bias / 2 / float(power));
  std::vector<float> slopes(heads);
  for (int64_t h = 0; h < heads; ++h) {
    slopes[h] = h < power ? std::pow(even, float(h + 1)) : std::pow(odd, float(2 * (h - power) + 1));
  }
  return slopes;
}

// Rows first .. first + count - 1 of the mask, times the slope of each head: (batch, heads, count, keys).
fa_tensor sloped(const ggml_tensor &mask, const std::vector<float> &slopes, int64_t first, int64_t count,
                 fa_plugin::Memory *memory) {
  const int64_t heads = int64_t(slopes.size()), keys = mask.ne[0];
  auto *const to = static_cast<float *>(memory->at_least(size_t(mask.ne[3] * heads * count * keys) * sizeof(float)));
  std::vector<float> row(keys);
  for (int64_t b = 0; b < mask.ne[3]; ++b) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        if (h == 0 || mask.ne[2] > 1) {
          const char *data = static_cast<const char *>(mask.data);
          const auto *from = reinterpret_cast<const uint16_t *>(
              data + b * mask.nb[3] + (mask.ne[2] > 1 ? h : 0) * mask.nb[2] + (first + i) * mask.nb[1]);
          std::transform(from, from + keys, row.begin(), fa_plugin::float_of_half);
        }
        float *out = to + ((b * heads + h) * count + i) * keys;
        for (int64_t j = 0; j < keys; ++j) out[j] = slopes[h] * row[j];
      }
    }
  }
  return fa::tensor(to, mask.ne[3], heads, count, keys);
}

// ---- calls

void run(const fa_desc &desc, fa::ForwardArgs *args, State *state) {
  const auto op = op_of(desc);
  args->workspace = state->workspace.at_least(op->workspace_size(*args));
  args->workspace_size = state->workspace.size();
  (*op)(*args);
}

// Rounds the queries of a prompt to f16 where its cache is f16 and libfa multiplies both by tiles: in f32 it would not.
void round_queries(const ggml_tensor &op, fa::Desc *desc, fa::ForwardArgs *args, State *state) {
  constexpr int64_t few_rows = 16;  // of a key/value head: they take the time of reading the cache
  const ggml_tensor &q = *op.src[0];
  if (q.ne[1] * (q.ne[2] / op.src[1]->ne[2]) <= few_rows || q.nb[0] != sizeof(float)) return;
  fa::Desc rounded = *desc;
  rounded.dtype_q = FA_F16;
  if (desc->dtype_kv != rounded.dtype_q || desc->dtype_v != rounded.dtype_q) return;
  if (std::strcmp(op_of(rounded)->kernel(), "cpu.amx_bf16x2") != 0) return;
  const int64_t batch = q.ne[3], rows = q.ne[1], heads = q.ne[2], dim = q.ne[0];
  const size_t bytes = size_t(batch * rows * heads * dim) * sizeof(uint16_t);
  auto *const to = static_cast<uint16_t *>(state->queries.at_least(bytes));
  uint16_t *next = to;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t h = 0; h < heads; ++h, next += dim) {
        const char *from = static_cast<const char *>(q.data) + b * q.nb[3] + h * q.nb[2] + i * q.nb[1];
        if (!to_f16(reinterpret_cast<const float *>(from), dim, next)) return;
      }
    }
  }
  *desc = rounded;
  args->q = fa::tensor(to, FA_F16, batch, rows, heads, dim);
}

// Rows in parts, so that the bias of each is small, however long the context is.
void run_sloped(const fa_desc &desc, const fa::ForwardArgs &args, const ggml_tensor &mask,
                const std::vector<float> &slopes, State *state) {
  const int64_t queries = args.q.shape[1];
  const int64_t row = mask.ne[3] * int64_t(slopes.size()) * mask.ne[0];
  const int64_t step = std::max<int64_t>(1, bias_elements / std::max<int64_t>(row, 1));
  for (int64_t first = 0; first < queries; first += step) {
    fa::ForwardArgs part = args;
    for (fa_tensor *t : {&part.q, &part.out}) {
      t->data = static_cast<float *>(t->data) + first * t->stride[1];
      t->shape[1] = std::min(step, queries - first);
    }
    part.bias = sloped(mask, slopes, first, part.q.shape[1], &state->bias);
    run(desc, &part, state);
  }
}

bool overlap(const ggml_tensor &a, const ggml_tensor &b) {
  const auto end = [](const ggml_tensor &t) {
    const Element &each = *element(t.type);
    size_t last = size_t(each.bytes) * (each.elements > 1 ? t.ne[0] / each.elements : 1);
    for (int i = each.elements > 1 ? 1 : 0; i < 4; ++i) last += size_t(std::max<int64_t>(t.ne[i] - 1, 0)) * t.nb[i];
    return static_cast<const char *>(t.data) + last;
  };
  return a.data < end(b) && b.data < end(a);
}

}  // namespace

std::string refusal(const ggml_tensor &op) {
  const ggml_tensor *q = op.src[0], *k = op.src[1], *v = op.src[2], *mask = op.src[3], *sinks = op.src[4];
  if (!q || !k || !v) return "q, k or v is missing";
  if (op.src[5]) return "the operation has a sixth input, which this version of ggml's headers does not describe";
  if (q->type != GGML_TYPE_F32) return "q has type " + type_of(*q) + "; libfa reads f32";
  if (op.type != GGML_TYPE_F32) return "the result has type " + type_of(op) + "; libfa writes f32";
  const std::pair<const char *, const ggml_tensor *> inputs[] = {{"q", q}, {"k", k}, {"v", v}, {"the result", &op}};
  for (const auto &[name, t] : inputs) {
    const std::string problem = bad_layout(name, *t);
    if (!problem.empty()) return problem;
  }
  if (k->ne[0] != q->ne[0] || k->ne[1] != v->ne[1] || k->ne[2] != v->ne[2] || k->ne[3] != q->ne[3] ||
      v->ne[3] != q->ne[3] || k->ne[2] == 0 || q->ne[2] % k->ne[2] != 0) {
    return "q of shape " + shape(*q) + ", k of " + shape(*k) + " and v of " + shape(*v) +
           " do not agree in their heads or sequences";
  }
  if (op.ne[0] != v->ne[0] || op.ne[1] != q->ne[2] || op.ne[2] != q->ne[1] || op.ne[3] != q->ne[3]) {
    return "the result has shape " + shape(op) + " for q of " + shape(*q) + " and v of " + shape(*v);
  }
  const Parameters p = parameters(op);
  if (!std::isfinite(p.scale) || p.scale == 0)
    return "scale is " + std::to_string(p.scale) + "; libfa's is finite and not 0";
  if (!(p.softcap >= 0) || std::isinf(p.softcap))
    return "softcap is " + std::to_string(p.softcap) + "; libfa's is finite and not negative";
  if (!(p.max_bias >= 0) || std::isinf(p.max_bias)) return "max_bias is " + std::to_string(p.max_bias);
  if (mask) {
    const std::string problem = bad_mask(*mask, *q, *k);
    if (!problem.empty()) return problem;
  }
  if (sinks && (sinks->type != GGML_TYPE_F32 || sinks->ne[0] != q->ne[2] || sinks->nb[0] != sizeof(float))) {
    return "sinks have shape " + shape(*sinks) + " and type " + type_of(*sinks) + "; libfa reads an f32 a head";
  }
  try {
    op_of(describe(op, 1));
  } catch (const fa::Error &error) {
    return error.what();
  }
  return "";
}

void compute(const ggml_tensor &op, State *state) {
  const ggml_tensor &q = *op.src[0], *mask = op.src[3], *sinks = op.src[4];
  fa::Desc desc = describe(op, state->threads);
  fa::ForwardArgs args;
  args.q = tensor(q);
  args.k = tensor(*op.src[1]);
  args.v = tensor(*op.src[2]);
  // The result is (dim, heads, sequence, batch).
  args.out = tensor(op);
  std::swap(args.out.shape[1], args.out.shape[2]);
  std::swap(args.out.stride[1], args.out.stride[2]);
  if (sinks) args.sinks = fa::tensor(static_cast<const float *>(sinks->data), 1, q.ne[2]);
  const bool in_place = overlap(op, q);
  if (in_place) {
    args.out = fa::tensor(static_cast<float *>(nullptr), q.ne[3], q.ne[1], q.ne[2], op.ne[0]);
    args.out.data = state->out.at_least(size_t(q.ne[3] * q.ne[1] * q.ne[2] * op.ne[0]) * sizeof(float));
  }

  const float max_bias = parameters(op).max_bias;
  Pattern pattern;
  std::vector<float> slopes;
  if (mask && max_bias > 0) slopes = slopes_of(q.ne[2], max_bias);
  if (mask && mask->ne[2] == 1 && recognise(plane_of(*mask, q), max_bias > 0, &pattern)) {
    desc.mask = pattern.causal ? FA_MASK_CAUSAL : FA_MASK_NONE;
    desc.window_left = pattern.window_left;
    args.leftpad_k = pattern.leftpad.data();
    args.seqused_k = pattern.used.data();
    if (pattern.causal) args.q_offset = pattern.offset.data();
    if (pattern.alibi) args.alibi_slopes = fa::tensor(slopes.data(), 1, q.ne[2]);
    round_queries(op, &desc, &args, state);
    run(desc, &args, state);
  } else if (mask && max_bias > 0) {
    run_sloped(desc, args, *mask, slopes, state);
  } else {
    if (mask) args.bias = bias_of(*mask, q);
    round_queries(op, &desc, &args, state);
    run(desc, &args, state);
  }
  if (in_place) std::memcpy(op.data, args.out.data, size_t(q.ne[3] * q.ne[1] * q.ne[2] * op.ne[0]) * sizeof(float));
}

}  // namespace fa_ggml
