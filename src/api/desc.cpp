// fa_desc: its defaults, and the rule for each of its fields.
#include "api/desc.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "api/refuse.h"
#include "api/struct_size.h"

namespace fa::api {
namespace {

/// The last field that a caller must have: a shorter structure describes no attention.
constexpr StructSizeRule<fa_desc> size_rule = {"fa_desc", offsetof(fa_desc, head_dim) + sizeof(fa_desc::head_dim),
                                               "call fa_desc_init"};

constexpr uint32_t known_flags = FA_FLAG_NONDETERMINISTIC | FA_FLAG_BATCH_INVARIANT | FA_FLAG_BIAS_BEFORE_SOFTCAP |
                                 FA_FLAG_HADAMARD_K | FA_FLAG_HADAMARD_V | FA_FLAG_DEVICE_POINTERS;

/// Positions are in (-2^32, 2^32): a window or chunk of this length reaches all of them, and sums cannot overflow.
constexpr int64_t everything = int64_t{1} << 33;

constexpr fa_desc defaults = [] {
  fa_desc desc = {};
  desc.window_left = -1;
  desc.window_right = -1;
  return desc;
}();

bool check_dtypes(const fa_desc &d, Attention *a) {
  return resolve_dtype("desc", "dtype_q", d.dtype_q, FA_DTYPE_DEFAULT, float_types, "it has no default", &a->q_dtype) &&
         resolve_dtype("desc", "dtype_kv", d.dtype_kv, a->q_dtype, cache_types, "or 0: as dtype_q", &a->kv_dtype) &&
         resolve_dtype("desc", "dtype_v", d.dtype_v, a->kv_dtype, cache_types, "or 0: as dtype_kv", &a->v_dtype) &&
         resolve_dtype("desc", "dtype_k_rope", d.dtype_k_rope, a->q_dtype, float_types, "or 0: as dtype_q",
                       &a->k_rope_dtype) &&
         resolve_dtype("desc", "dtype_out", d.dtype_out, a->q_dtype, float_types, "or 0: as dtype_q", &a->out_dtype);
}

/// A row is whole units of its type.
bool check_row(const char *field, int64_t dim, const char *type_field, fa_dtype dtype) {
  const int64_t elements = unit_of(dtype).elements;
  if (dim % elements == 0) return true;
  return refuse("%s is %lld, and %s %s, of which %lld elements are together; expected a multiple of %lld", field,
                ll{dim}, type_field, dtype_name(dtype), ll{elements}, ll{elements});
}

bool check_rows(const fa_desc &d, const Attention &a) {
  const char *type_of_v = d.dtype_v != FA_DTYPE_DEFAULT ? "desc.dtype_v" : "desc.dtype_kv";
  return check_row(d.head_dim_rope ? "desc.head_dim less desc.head_dim_rope" : "desc.head_dim",
                   d.head_dim - d.head_dim_rope, "desc.dtype_kv", a.kv_dtype) &&
         check_row(d.head_dim_v ? "desc.head_dim_v" : "desc.head_dim", d.head_dim_v ? d.head_dim_v : d.head_dim,
                   type_of_v, a.v_dtype);
}

bool check_ranges(const fa_desc &d) {
  return in_range("desc.device", d.device, 0, 2, "FA_DEVICE_AUTO, FA_DEVICE_CPU, FA_DEVICE_CUDA") &&
         in_range("desc.device_index", d.device_index, 0, INT32_MAX, "which GPU") &&
         in_range("desc.mask", d.mask, 0, 2, "FA_MASK_NONE, FA_MASK_CAUSAL, FA_MASK_CAUSAL_TOP_LEFT") &&
         in_range("desc.head_dim", d.head_dim, 1, FA_MAX_HEAD_DIM, "elements of a row of q and k") &&
         in_range("desc.head_dim_v", d.head_dim_v, 0, FA_MAX_HEAD_DIM, "elements of a row of v; 0 means as head_dim") &&
         in_range("desc.attention_chunk", d.attention_chunk, 0, INT64_MAX, "positions; 0 means no chunks") &&
         in_range("desc.num_threads", d.num_threads, 0, FA_MAX_THREADS, "0 means the CPUs of the process") &&
         in_range("desc.head_dim_rope", d.head_dim_rope, 0, d.head_dim - 1,
                  "elements of a row of k_rope, fewer than desc.head_dim; 0 means that k has all");
}

bool check_floats(const fa_desc &d) {
  if (!std::isfinite(d.softmax_scale)) {
    return refuse("desc.softmax_scale is %g; expected a finite number, or 0: 1 / sqrt(head_dim)", d.softmax_scale);
  }
  if (!std::isfinite(d.softcap) || d.softcap < 0) {
    return refuse("desc.softcap is %g; expected a positive, finite number, or 0: none", d.softcap);
  }
  return true;
}

bool check_flags(const fa_desc &d) {
  if (d.flags & ~known_flags) {
    return refuse("desc.flags is 0x%x: 0x%x is not an FA_FLAG_* of libfa %s; expected any of 0x%x", d.flags,
                  d.flags & ~known_flags, FA_VERSION_STRING, known_flags);
  }
  if ((d.flags & FA_FLAG_BATCH_INVARIANT) && (d.flags & FA_FLAG_NONDETERMINISTIC)) {
    return refuse(
        "desc.flags holds FA_FLAG_BATCH_INVARIANT and FA_FLAG_NONDETERMINISTIC, which contradict each other: "
        "choose one");
  }
  if ((d.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP) && d.softcap == 0) {
    return refuse(
        "desc.flags holds FA_FLAG_BIAS_BEFORE_SOFTCAP, but desc.softcap is 0 (none): set a softcap or drop "
        "the flag");
  }
  if ((d.flags & FA_FLAG_DEVICE_POINTERS) && d.device != FA_DEVICE_CUDA) {
    return refuse(
        "desc.flags holds FA_FLAG_DEVICE_POINTERS, but desc.device is %s, whose calls may have memory of the host: set "
        "desc.device to FA_DEVICE_CUDA or drop the flag",
        d.device == FA_DEVICE_CPU ? "FA_DEVICE_CPU" : "FA_DEVICE_AUTO");
  }
  return true;
}

/// The elements of a rotated block of a row: the largest power of 2 that divides the row.
int64_t block_of(int64_t dim) {
  return dim & -dim;
}

void store(const fa_desc &d, Attention *a) {
  const auto window = [](int64_t side) { return side < 0 || side >= everything ? -1 : side; };
  a->device = d.device;
  a->device_index = d.device_index;
  a->mask = d.mask;
  a->head_dim = d.head_dim;
  a->head_dim_v = d.head_dim_v ? d.head_dim_v : d.head_dim;
  a->head_dim_rope = d.head_dim_rope;
  a->window_left = window(d.window_left);
  a->window_right = window(d.window_right);
  a->chunk = std::min(d.attention_chunk, everything);
  a->scale =
      d.softmax_scale != 0 ? d.softmax_scale : static_cast<float>(1 / std::sqrt(static_cast<double>(d.head_dim)));
  a->softcap = d.softcap;
  a->nondeterministic = d.flags & FA_FLAG_NONDETERMINISTIC;
  a->batch_invariant = d.flags & FA_FLAG_BATCH_INVARIANT;
  a->bias_before_softcap = d.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP;
  a->device_pointers = d.flags & FA_FLAG_DEVICE_POINTERS;
  a->hadamard_k = d.flags & FA_FLAG_HADAMARD_K ? block_of(a->head_dim_k()) : 1;
  a->hadamard_v = d.flags & FA_FLAG_HADAMARD_V ? block_of(a->head_dim_v) : 1;
  a->num_threads = d.num_threads;
  a->parallel_for = d.parallel_for;
  a->parallel_for_user = d.parallel_for_user;
}

}  // namespace

bool read_desc(const fa_desc *desc, Attention *attention) {
  if (!desc) return refuse("desc is NULL; expected an fa_desc set by fa_desc_init");
  fa_desc storage;
  const fa_desc *d = upgrade_struct(size_rule, desc, defaults, &storage);
  if (!d || !check_ranges(*d) || !check_dtypes(*d, attention) || !check_rows(*d, *attention) || !check_floats(*d) ||
      !check_flags(*d))
    return false;
  store(*d, attention);
  return true;
}

}  // namespace fa::api

void fa_desc_init(fa_desc *desc, size_t struct_size) {
  fa::api::initialise(desc, struct_size, fa::api::defaults);
}
