#include "append_call.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "attention_options.h"
#include "error.h"
#include "library.h"
#include "reference/codes.h"
#include "run_options.h"

namespace fa::tool {
namespace {

/// The type of queries of the attention that reads the cache: that of q, else one that fits the cache.
fa_dtype dtype_of_queries(const fa_append_args &args) {
  if (args.q.data) return args.q.dtype;
  return reference::codes_of(args.k_cache.dtype) ? args.k.dtype : args.k_cache.dtype;
}

/// A file whose contents the call adds to.
void check_there(const std::string &path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) bad_input("{}: is not there; --new-cache N,ROWS makes the files", path);
}

}  // namespace

bool is_written(schema::Access access, const AppendOptions &options) {
  return access == schema::Access::written || (access == schema::Access::computed && options.compute_scales);
}

AppendCall::AppendCall(const AppendOptions &options)
    : form_{options.layout == "bhsd", options.u2_as_bf16},
      as_k_{"--dtype-kv", options.dtype_kv},
      as_v_(options.dtype_v.empty() ? as_k_ : StoredAs{"--dtype-v", options.dtype_v}) {
  fa_desc_init(&desc, sizeof desc);
  fa_append_args_init(&args, sizeof args);
  read_rows_of(options);
  if (options.new_cache.empty()) {
    read_caches(options);
  } else {
    make_caches(options);
  }
  read_features(options);
  describe_attention(options);
}

void AppendCall::read_rows_of(const AppendOptions &options) {
  const auto read = [&](const std::string &path, Array *array) -> fa_tensor {
    if (path.empty()) return {};
    *array = read_rows(path, form_, dtype_of_name(options.dtype));
    return rows_tensor(array, dtype_of(array->type), form_.bhsd);
  };
  args.k = read(options.k, &k);
  args.v = read(options.v, &v);
  args.k_rope = read(options.k_rope, &k_rope);
  args.q = read(options.q, &q);
  if (!options.q_out.empty()) {
    q_out = make_array(q.type, q.shape);
    args.q_out = rows_tensor(&q_out, args.q.dtype, form_.bhsd);
  }
}

void AppendCall::read_caches(const AppendOptions &options) {
  const auto read = [&](const std::string &path, const StoredAs &as, Array *array) -> fa_tensor {
    if (path.empty()) return {};
    check_there(path);
    Stored stored = read_stored(path, as, form_, FA_DTYPE_DEFAULT);
    if (stored.array.shape.size() != 4) {
      bad_input("{}: shape {}; a cache has 4 dimensions, (batch, rows, heads, dim) or (pages, rows, heads, dim)", path,
                shape_text(stored.array.shape));
    }
    *array = std::move(stored.array);
    return rows_tensor(array, stored.dtype, form_.bhsd);
  };
  args.k_cache = read(options.k_cache, as_k_, &k_cache);
  args.v_cache = read(options.v_cache, as_v_, &v_cache);
  args.k_rope_cache = read(options.k_rope_cache, {"--k-rope-cache", ""}, &k_rope_cache);
}

void AppendCall::make_caches(const AppendOptions &options) {
  const std::vector<int64_t> sizes =
      parse_integers("--new-cache", options.new_cache, 2, 2, "N,ROWS (entries or pages, and the rows of each)");
  if (sizes[0] < 1 || sizes[1] < 1) bad_input("--new-cache is '{}'; both numbers are at least 1", options.new_cache);
  const auto make = [&](const StoredAs &as, const fa_tensor &rows, Array *array) {
    const fa_dtype dtype = as.name.empty() ? rows.dtype : storage_of_name(as.name);
    *array = new_stored(as, dtype, form_, sizes[0], sizes[1], rows.shape[2], rows.shape[3]).array;
    return rows_tensor(array, dtype, form_.bhsd);
  };
  args.k_cache = make(as_k_, args.k, &k_cache);
  if (args.v.data) args.v_cache = make(as_v_, args.v, &v_cache);
  if (args.k_rope.data) args.k_rope_cache = make({"--k-rope-cache", ""}, args.k_rope, &k_rope_cache);
  if (!options.compute_scales) return;
  make_factors(options, args.k_cache, options.k_scale, &args.k_scale, &k_scale);
  make_factors(options, args.k_cache, options.k_zero, &args.k_zero, &k_zero);
  make_factors(options, args.v_cache, options.v_scale, &args.v_scale, &v_scale);
  make_factors(options, args.v_cache, options.v_zero, &args.v_zero, &v_zero);
}

void AppendCall::make_factors(const AppendOptions &options, const fa_tensor &cache, const std::string &path,
                              fa_tensor *tensor, Array *array) {
  if (path.empty()) return;
  const fa_dtype dtype = options.scale_dtype.empty() ? FA_F32 : dtype_of_name(options.scale_dtype);
  std::vector<int64_t> shape(cache.shape, cache.shape + 4);
  shape[3] = std::max<int64_t>(options.groups, 1);
  if (form_.bhsd) std::swap(shape[1], shape[2]);
  *array = make_array(npy_type_of(dtype), std::move(shape));
  *tensor = rows_tensor(array, dtype, form_.bhsd);
}

void AppendCall::read_features(const AppendOptions &options) {
  batch_ = args.k.shape[0];
  if (!options.cu_seqlens_new.empty()) args.num_seqs = batch_ = count_sequences(options.cu_seqlens_new);
#define FA_ARRAY(name, more, ...) args.name = read_lengths(options.name, option_of(#name), batch_ + (more), &name##_);
  FA_APPEND_FIELDS(FA_NOTHING, FA_ARRAY, FA_NOTHING)
#undef FA_ARRAY
  const auto read = [&](const std::string &path, schema::Access access, schema::TypeRule type, schema::ShapeRule shape,
                        Array *array, fa_tensor *tensor) {
    if (path.empty() || tensor->data) return;
    if (is_written(access, options)) {
      check_there(path);
      const Array file = read_npy(path);
      if (as_floating(file, path, form_.u2_as_bf16).type == NpyType::f64) {
        bad_input("{}: holds {}; scales and zeros are written in float32, float16 or bfloat16", path, describe(file));
      }
      *tensor = read_tensor(path, type, shape, form_, array);
      array->type = file.type;  // as it is written back
    } else {
      *tensor = read_tensor(path, type, shape, form_, array);
    }
  };
#define FA_TENSOR(name, access, presence, type, shape, ...) \
  read(options.name, schema::Access::access, schema::TypeRule::type, schema::ShapeRule::shape, &name, &args.name);
  FA_APPEND_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
}

void AppendCall::describe_attention(const AppendOptions &options) {
  desc.device = device_of(options.device);
  desc.dtype_q = dtype_of_queries(args);
  desc.dtype_kv = args.k_cache.dtype;
  desc.dtype_v = args.v_cache.data ? args.v_cache.dtype : FA_DTYPE_DEFAULT;
  desc.head_dim = args.k_cache.shape[3] + args.k_rope_cache.shape[3];
  desc.head_dim_rope = args.k_rope_cache.shape[3];
  desc.dtype_k_rope = args.k_rope_cache.dtype;
  desc.head_dim_v = args.v_cache.data ? args.v_cache.shape[3] : args.k_cache.shape[3];  // keys that hold the values
  desc.num_threads = options.threads;
  if (options.hadamard_k) desc.flags |= FA_FLAG_HADAMARD_K;
  if (options.hadamard_v) desc.flags |= FA_FLAG_HADAMARD_V;
  if (options.compute_scales) args.flags |= FA_APPEND_COMPUTE_SCALES;
  if (options.rotary_interleaved) args.flags |= FA_APPEND_ROTARY_INTERLEAVED;
  if (options.rotary_tail) args.flags |= FA_APPEND_ROTARY_TAIL;
}

int64_t AppendCall::tokens() const {
  if (args.slot_mapping.data) {
    int64_t placed = 0;
    for (int64_t i = 0; i < slot_mapping.elements(); ++i) placed += slot_mapping.value(i) >= 0;
    return placed;
  }
  if (args.seqused_new) return std::accumulate(seqused_new_.begin(), seqused_new_.end(), int64_t{0});
  if (args.cu_seqlens_new) return cu_seqlens_new_.back() - cu_seqlens_new_.front();
  return args.k.shape[0] * args.k.shape[1];
}

double AppendCall::bytes() const {
  int64_t head = 0;  // of a token
  for (const fa_tensor *rows : {&args.k, &args.v, &args.k_rope, &args.k_cache, &args.v_cache, &args.k_rope_cache}) {
    if (rows->data) head += reference::row_bytes(rows->dtype, rows->shape[3]);
  }
  for (const fa_tensor *factors : {&args.k_scale, &args.v_scale, &args.k_zero, &args.v_zero}) {
    if (factors->data) head += reference::row_bytes(factors->dtype, factors->shape[3]);
  }
  return static_cast<double>(tokens() * args.k.shape[2] * head) +
         static_cast<double>(q.bytes.size() + q_out.bytes.size());
}

std::vector<AppendCall::Output> AppendCall::outputs(const AppendOptions &options) const {
  std::vector<Output> all;
  const auto add = [&](const char *name, schema::Access access, const std::string &path, const Array &array,
                       const fa_tensor &tensor) {
    if (tensor.data && is_written(access, options)) all.push_back({name, path, array, tensor.dtype});
  };
#define FA_TENSOR(name, access, ...) add(#name, schema::Access::access, options.name, name, args.name);
  FA_APPEND_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
  return all;
}

}  // namespace fa::tool
