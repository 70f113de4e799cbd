#include "run_call.h"

#include <algorithm>

#include "cache_file.h"
#include "error.h"
#include "library.h"
#include "options.h"

namespace fa::tool {
namespace {

/// Packed rows need their beginnings.
void check_packed(const std::string &path, const Array &array, bool packed, const char *cu_seqlens) {
  if (array.shape.size() != 3 || packed) return;
  bad_input(
      "{}: shape {} has 3 dimensions, which means packed sequences (total, heads, dim): give {} (or --cu-seqlens) "
      "too, or an array of 4 dimensions",
      path, shape_text(array.shape), cu_seqlens);
}

}  // namespace

RunCall::RunCall(const RunOptions &options) : form_{options.layout == "bhsd", options.u2_as_bf16} {
  fa_desc_init(&desc, sizeof desc);
  fa_forward_args_init(&args, sizeof args);
  read_tensors(options);
  describe_attention(options);
  read_sequences(options);
  read_features(options);
  make_outputs(options);
}

fa_tensor RunCall::view(Array *array) const {
  return rows_tensor(array, dtype_of(array->type), form_.bhsd);
}

void RunCall::read_tensors(const RunOptions &options) {
  const bool packed_q = !options.cu_seqlens.empty() || !options.cu_seqlens_q.empty();
  const bool packed_k = !options.cu_seqlens.empty() || !options.cu_seqlens_k.empty();
  const fa_dtype dtype = dtype_of_name(options.dtype);
  q = read_rows(options.q, form_, dtype);
  check_packed(options.q, q, packed_q, "--cu-seqlens-q");
  args.q = view(&q);
  const auto read = [&](const std::string &path, const StoredAs &as, Array *array) {
    Stored stored = read_stored(path, as, form_, as.name.empty() ? dtype : dtype_of_name(as.name));
    check_packed(path, stored.array, packed_k, "--cu-seqlens-k");
    *array = std::move(stored.array);
    return rows_tensor(array, stored.dtype, form_.bhsd);
  };
  const StoredAs as_k = {"--dtype-kv", options.dtype_kv};
  args.k = read(options.k, as_k, &k);
  args.v = read(options.v, options.dtype_v.empty() ? as_k : StoredAs{"--dtype-v", options.dtype_v}, &v);
  if (!options.k_rope.empty()) {
    k_rope = read_rows(options.k_rope, form_, dtype);
    check_packed(options.k_rope, k_rope, packed_k, "--cu-seqlens-k");
    args.k_rope = view(&k_rope);
  }
  const fa_tensor &tq = args.q, &tk = args.k, &tv = args.v;
  if (tk.shape[3] + args.k_rope.shape[3] != tq.shape[3]) {
    if (args.k_rope.data)
      bad_input("{}: head dimension {}, and {}: {}; expected {} together, as {} has", options.k, tk.shape[3],
                options.k_rope, args.k_rope.shape[3], tq.shape[3], options.q);
    bad_input("{}: head dimension {}; expected {}, as {} has", options.k, tk.shape[3], tq.shape[3], options.q);
  }
  if (tk.shape[2] == 0 ? tq.shape[2] != 0 : tq.shape[2] % tk.shape[2] != 0)
    bad_input("{}: {} heads; expected a divisor of the {} heads of {}", options.k, tk.shape[2], tq.shape[2], options.q);
  if (!std::equal(tk.shape, tk.shape + 3, tv.shape))
    bad_input("{}: shape {}; expected, but for the last dimension, that of {}, {}", options.v, shape_text(v.shape),
              options.k, shape_text(k.shape));
}

void RunCall::describe_attention(const RunOptions &options) {
  desc.device = device_of(options.device);
  desc.dtype_q = args.q.dtype;
  desc.dtype_kv = args.k.dtype;
  desc.dtype_v = args.v.dtype;
  desc.dtype_out = dtype_of_name(options.out_dtype);
  desc.head_dim = args.q.shape[3];
  desc.head_dim_v = args.v.shape[3];
  desc.head_dim_rope = args.k_rope.shape[3];
  desc.dtype_k_rope = args.k_rope.dtype;
  set_mask(options, &desc);
  desc.softmax_scale = options.scale.value_or(0);
  desc.softcap = options.softcap;
  desc.num_threads = options.threads;
  if (options.nondeterministic) desc.flags |= FA_FLAG_NONDETERMINISTIC;
  if (options.batch_invariant) desc.flags |= FA_FLAG_BATCH_INVARIANT;
  if (options.bias_before_softcap) desc.flags |= FA_FLAG_BIAS_BEFORE_SOFTCAP;
  if (options.device_pointers) desc.flags |= FA_FLAG_DEVICE_POINTERS;
  if (options.hadamard_k) desc.flags |= FA_FLAG_HADAMARD_K;
  if (options.hadamard_v) desc.flags |= FA_FLAG_HADAMARD_V;
  args.num_splits = options.num_splits;
}

void RunCall::read_sequences(const RunOptions &options) {
  const std::string &path_q = options.cu_seqlens.empty() ? options.cu_seqlens_q : options.cu_seqlens;
  const std::string &path_k = options.cu_seqlens.empty() ? options.cu_seqlens_k : options.cu_seqlens;
  batch_ = args.q.shape[0];
  const std::string &first = path_q.empty() ? path_k : path_q;
  if (!first.empty()) {
    args.num_seqs = batch_ = count_sequences(first);
  }
  for (const auto &[path, values, target] : {std::tuple(&path_q, &cu_seqlens_q_, &args.cu_seqlens_q),
                                             std::tuple(&path_k, &cu_seqlens_k_, &args.cu_seqlens_k)}) {
    if (path->empty()) continue;
    std::vector<int64_t> shape;
    *values = read_int32(*path, &shape);
    if (static_cast<int64_t>(values->size()) != batch_ + 1) {
      bad_input("{}: shape {}; {} says that there are {} sequences, so ({},) is expected", *path, shape_text(shape),
                first, batch_, batch_ + 1);
    }
    *target = values->data();
  }
#define FA_ARRAY(name, more, ...) \
  if (more == 0) args.name = read_lengths(options.name, option_of(#name), batch_, &name##_);
  FA_INPUT_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
}

void RunCall::read_features(const RunOptions &options) {
#define FA_TENSOR(name, access, presence, type, shape, ...)            \
  if (schema::Presence::presence == schema::Presence::optional &&      \
      schema::form_of(schema::ShapeRule::shape) != schema::Form::rows) \
    args.name = read_tensor(options.name, schema::TypeRule::type, schema::ShapeRule::shape, form_, &name);
  FA_RUN_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
}

void RunCall::make_outputs(const RunOptions &options) {
  std::vector<int64_t> shape = q.shape;
  shape.back() = args.v.shape[3];
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
