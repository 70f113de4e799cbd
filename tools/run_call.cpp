// Reads the files of a call and describes them as tensors; only properties that the library cannot see are checked
// here.
#include "run_call.h"

#include <algorithm>
#include <limits>

#include "error.h"
#include "library.h"
#include "options.h"

namespace fa::tool {
namespace {

/// The array of a file as 32-bit integers.
std::vector<int32_t> int32_values(const std::string &path, const Array &array) {
  if (array.type != NpyType::i32 && array.type != NpyType::i64) {
    bad_input("{}: holds {}; an array of int32 (or int64) is expected", path, describe(array));
  }
  std::vector<int32_t> values;
  for (int64_t i = 0; i < array.elements(); ++i) {
    const int64_t value = array.type == NpyType::i32 ? array.data<int32_t>()[i] : array.data<int64_t>()[i];
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
      bad_input("{}: element {} is {}, which does not fit into 32 bits", path, i, value);
    }
    values.push_back(static_cast<int32_t>(value));
  }
  return values;
}

bool is_floating(NpyType type) {
  return type == NpyType::f64 || dtype_of(type) != FA_DTYPE_DEFAULT;
}

Array read_qkv(const std::string &path, const RunOptions &options, bool packed, const char *cu_seqlens) {
  Array array = read_floating(path, options.u2_as_bf16);
  if (!options.dtype.empty()) array = converted(std::move(array), npy_type_of(dtype_of_name(options.dtype)));
  if (dtype_of(array.type) == FA_DTYPE_DEFAULT) {
    bad_input("{}: holds {}, which attention does not compute in; --dtype f32 (or f16, bf16) converts it", path,
              describe(array));
  }
  const size_t dimensions = array.shape.size();
  if (dimensions != 3 && dimensions != 4) {
    bad_input(
        "{}: shape {} has {} dimensions; 4 are expected, (batch, sequence, heads, dim), or 3 for packed sequences, "
        "(total, heads, dim)",
        path, shape_text(array.shape), dimensions);
  }
  if (dimensions == 3 && !packed) {
    bad_input(
        "{}: shape {} has 3 dimensions, which means packed sequences (total, heads, dim): give {} (or --cu-seqlens) "
        "too, or an array of 4 dimensions",
        path, shape_text(array.shape), cu_seqlens);
  }
  return array;
}

/// A tensor whose dimensions are the array's last ones; those that the array lacks are 1.
fa_tensor broadcast_view(Array *array, fa_dtype dtype, const std::string &path) {
  if (array->shape.size() > 4) {
    bad_input("{}: shape {} has {} dimensions; at most 4 are expected, (B, Hq, Sq, Sk)", path, shape_text(array->shape),
              array->shape.size());
  }
  int64_t shape[4] = {1, 1, 1, 1};
  std::copy(array->shape.begin(), array->shape.end(), shape + 4 - array->shape.size());
  fa_tensor tensor = {};
  fa_tensor_init(&tensor, array->bytes.data(), dtype, shape[0], shape[1], shape[2], shape[3]);
  return tensor;
}

/// The pages of each sequence, as int32.
fa_tensor read_pages(const std::string &path, Array *array) {
  const Array file = read_npy(path);
  if (file.shape.size() != 2) {
    bad_input("{}: shape {}; --block-table takes an array of shape (sequences, pages)", path, shape_text(file.shape));
  }
  *array = make_array(NpyType::i32, file.shape);
  std::ranges::copy(int32_values(path, file), array->data<int32_t>());
  fa_tensor tensor = {};
  fa_tensor_init(&tensor, array->bytes.data(), FA_I32, file.shape[0], file.shape[1], 1, 1);
  return tensor;
}

}  // namespace

Array read_floating(const std::string &path, bool u2_as_bf16) {
  Array array = read_npy(path);
  if (array.type == NpyType::u16 && u2_as_bf16) array.type = NpyType::bf16;
  if (array.type == NpyType::u16) {
    bad_input("{}: holds {}; if these are the bits of bfloat16, say --u2-as-bf16", path, describe(array));
  }
  if (!is_floating(array.type)) {
    bad_input("{}: holds {}; float32, float16 or bfloat16 is expected", path, describe(array));
  }
  return array;
}

RunCall::RunCall(const RunOptions &options) : bhsd_(options.layout == "bhsd") {
  fa_desc_init(&desc, sizeof desc);
  fa_forward_args_init(&args, sizeof args);
  read_tensors(options);
  describe_attention(options);
  read_sequences(options);
  read_features(options);
  make_outputs(options);
}

fa_tensor RunCall::view(Array *array) const {
  const std::vector<int64_t> &s = array->shape;
  const fa_dtype dtype = dtype_of(array->type);
  fa_tensor tensor = {};
  if (s.size() == 3) {
    fa_tensor_init(&tensor, array->bytes.data(), dtype, 1, s[0], s[1], s[2]);
  } else {
    fa_tensor_init(&tensor, array->bytes.data(), dtype, s[0], s[1], s[2], s[3]);
    if (bhsd_) {
      std::swap(tensor.shape[1], tensor.shape[2]);
      std::swap(tensor.stride[1], tensor.stride[2]);
    }
  }
  return tensor;
}

void RunCall::read_tensors(const RunOptions &options) {
  const bool packed_q = !options.cu_seqlens.empty() || !options.cu_seqlens_q.empty();
  const bool packed_k = !options.cu_seqlens.empty() || !options.cu_seqlens_k.empty();
  q = read_qkv(options.q, options, packed_q, "--cu-seqlens-q");
  k = read_qkv(options.k, options, packed_k, "--cu-seqlens-k");
  v = read_qkv(options.v, options, packed_k, "--cu-seqlens-k");
  args.q = view(&q);
  args.k = view(&k);
  args.v = view(&v);
  const fa_tensor &tq = args.q, &tk = args.k, &tv = args.v;
  if (tk.shape[3] != tq.shape[3])
    bad_input("{}: head dimension {}; that of {} is {}, and both are to be the same", options.k, tk.shape[3], options.q,
              tq.shape[3]);
  if (tk.shape[2] == 0 ? tq.shape[2] != 0 : tq.shape[2] % tk.shape[2] != 0)
    bad_input("{}: {} heads; they are to divide the {} heads of {}", options.k, tk.shape[2], tq.shape[2], options.q);
  if (!std::equal(tk.shape, tk.shape + 3, tv.shape))
    bad_input("{}: shape {}; all dimensions but the last are to be those of {}, {}", options.v, shape_text(v.shape),
              options.k, shape_text(k.shape));
}

void RunCall::describe_attention(const RunOptions &options) {
  desc.device = options.device == "cpu" ? FA_DEVICE_CPU : options.device == "cuda" ? FA_DEVICE_CUDA : FA_DEVICE_AUTO;
  desc.dtype_q = args.q.dtype;
  desc.dtype_kv = args.k.dtype;
  desc.dtype_out = dtype_of_name(options.out_dtype);
  desc.head_dim = args.q.shape[3];
  desc.head_dim_v = args.v.shape[3];
  desc.mask = options.causal ? FA_MASK_CAUSAL : options.causal_top_left ? FA_MASK_CAUSAL_TOP_LEFT : FA_MASK_NONE;
  if (!options.window.empty()) {
    const std::vector<int64_t> window = parse_integers("--window", options.window, 2, 2, "LEFT,RIGHT (-1: open)");
    desc.window_left = window[0];
    desc.window_right = window[1];
  }
  desc.attention_chunk = options.chunk;
  desc.softmax_scale = options.scale.value_or(0);
  desc.softcap = options.softcap;
  desc.num_threads = options.threads;
  if (options.nondeterministic) desc.flags |= FA_FLAG_NONDETERMINISTIC;
  if (options.batch_invariant) desc.flags |= FA_FLAG_BATCH_INVARIANT;
  if (options.bias_before_softcap) desc.flags |= FA_FLAG_BIAS_BEFORE_SOFTCAP;
  args.num_splits = options.num_splits;
}

const int32_t *RunCall::read_int32(const std::string &path, const std::string &option, std::vector<int32_t> *values,
                                   int64_t count) const {
  if (path.empty()) return nullptr;
  const Array array = read_npy(path);
  *values = int32_values(path, array);
  if (array.shape.size() != 1 || array.elements() != count) {
    bad_input("{}: shape {}; {} takes an array of shape ({},), one entry for each sequence", path,
              shape_text(array.shape), option, count);
  }
  return values->data();
}

void RunCall::read_sequences(const RunOptions &options) {
  const std::string &path_q = options.cu_seqlens.empty() ? options.cu_seqlens_q : options.cu_seqlens;
  const std::string &path_k = options.cu_seqlens.empty() ? options.cu_seqlens_k : options.cu_seqlens;
  batch_ = args.q.shape[0];
  const std::string &first = path_q.empty() ? path_k : path_q;
  if (!first.empty()) {
    const Array array = read_npy(first);
    if (array.shape.size() != 1 || array.elements() < 1) {
      bad_input(
          "{}: shape {}; the places where sequences begin, and the end of the last, are expected: (sequences + 1,)",
          first, shape_text(array.shape));
    }
    args.num_seqs = batch_ = array.elements() - 1;
  }
  for (const auto &[path, values, target] : {std::tuple(&path_q, &cu_seqlens_q_, &args.cu_seqlens_q),
                                             std::tuple(&path_k, &cu_seqlens_k_, &args.cu_seqlens_k)}) {
    if (path->empty()) continue;
    const Array array = read_npy(*path);
    *values = int32_values(*path, array);
    if (array.elements() != batch_ + 1) {
      bad_input("{}: shape {}; {} says that there are {} sequences, so ({},) is expected", *path,
                shape_text(array.shape), first, batch_, batch_ + 1);
    }
    *target = values->data();
  }
#define FA_ARRAY(name, more, ...) \
  if (more == 0) args.name = read_int32(options.name, option_of(#name), &name##_, batch_);
  FA_INPUT_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
}

/// Slopes or sinks: (heads) or (batch, heads), in float32 whatever the file has.
fa_tensor RunCall::read_per_head(const std::string &path, Array *array) const {
  *array = converted(read_floating(path, false), NpyType::f32);
  const std::vector<int64_t> &s = array->shape;
  if (s.size() != 1 && s.size() != 2) {
    bad_input("{}: shape {}; ({},) or ({}, {}) is expected, a number for each head", path, shape_text(s),
              args.q.shape[2], batch_, args.q.shape[2]);
  }
  fa_tensor tensor = {};
  fa_tensor_init(&tensor, array->bytes.data(), FA_F32, s.size() == 2 ? s[0] : 1, s.back(), 1, 1);
  return tensor;
}

/// A mask, or a bias in the type of its file.
fa_tensor RunCall::read_scores(const RunOptions &options, const std::string &path, schema::TypeRule type,
                               Array *array) const {
  if (type == schema::TypeRule::boolean) {
    *array = read_npy(path);
    if (array->type != NpyType::boolean && array->type != NpyType::u8) {
      bad_input("{}: holds {}; bool is expected, true where a query attends a key (for an addend to scores: --bias)",
                path, describe(*array));
    }
    return broadcast_view(array, FA_BOOL, path);
  }
  *array = read_floating(path, options.u2_as_bf16);
  if (array->type == NpyType::f64) *array = converted(std::move(*array), NpyType::f32);
  return broadcast_view(array, dtype_of(array->type), path);
}

fa_tensor RunCall::read_optional(const RunOptions &options, const std::string &path, schema::TypeRule type,
                                 schema::ShapeRule shape, Array *array) const {
  if (path.empty()) return {};
  switch (schema::form_of(shape)) {
    case schema::Form::scores:
      return read_scores(options, path, type, array);
    case schema::Form::per_head:
      return read_per_head(path, array);
    case schema::Form::pages:
      return read_pages(path, array);
    case schema::Form::rows:
    case schema::Form::factors:
    case schema::Form::row_sums:
    case schema::Form::places:
    case schema::Form::table:
    case schema::Form::tree:
      break;  // no optional input is
  }
  return {};
}

void RunCall::read_features(const RunOptions &options) {
#define FA_TENSOR(name, access, presence, type, shape, ...)     \
  if (schema::Presence::presence == schema::Presence::optional) \
    args.name = read_optional(options, options.name, schema::TypeRule::type, schema::ShapeRule::shape, &name);
  FA_INPUT_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
}

void RunCall::make_outputs(const RunOptions &options) {
  std::vector<int64_t> shape = q.shape;
  shape.back() = v.shape.back();
  out = make_array(npy_type_of(desc.dtype_out ? desc.dtype_out : desc.dtype_q), shape);
  args.out = view(&out);
  if (options.lse_out.empty() && options.dout.empty()) return;
  const int64_t rows = args.q.shape[1], heads = args.q.shape[2];
  if (q.shape.size() == 3) {
    lse = make_array(NpyType::f32, {heads, rows});
  } else {
    lse = make_array(NpyType::f32, {args.q.shape[0], heads, rows});
  }
  fa_tensor_init(&args.lse, lse.bytes.data(), FA_F32, args.q.shape[0], heads, rows, 1);
}

}  // namespace fa::tool
