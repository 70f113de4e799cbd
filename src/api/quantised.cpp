#include "api/quantised.h"

#include "api/refuse.h"

namespace fa::api {
namespace {

/// k or v, whose codes may have scales and zeros.
struct Quantised {
  const char *name;  // "k"
  const char *type;  // where its type stems from
  fa_dtype dtype;
  bool any;  // it has elements
  const char *dim_name;
  int64_t dim;
};

/// A tensor of scales or zeros.
struct Factor {
  const char *name;  // "args.k_scale"
  const fa_tensor &given;
};

bool read_groups(const Quantised &q, const Factor &factor, int64_t *channels) {
  const int64_t groups = factor.given.shape[3];
  *channels = q.dim / groups;
  if (q.dim % groups == 0) return true;
  return refuse("%s.shape[3] is %lld; expected a divisor of %s, which is %lld, as groups have equally many channels",
                factor.name, ll{groups}, q.dim_name, ll{q.dim});
}

bool read_factor(const Quantised &q, const Factor &factor, int64_t *channels) {
  if (!factor.given.data) return true;
  switch (code_kind(q.dtype)) {
    case CodeKind::integer:
    case CodeKind::floating:
      return read_groups(q, factor, channels);
    case CodeKind::block:
      return refuse("%s is given, but %s is of %s, whose blocks hold their scales; expected none", factor.name, q.name,
                    dtype_name(q.dtype));
    case CodeKind::none:
      break;
  }
  return refuse(
      "%s is given, but %s is of %s, which is not quantised; expected none, or FA_I8, FA_E4M3, FA_E5M2, FA_I4 or FA_U4 "
      "(%s)",
      factor.name, q.name, dtype_name(q.dtype), q.type);
}

bool check_scale(const Quantised &q, Purpose purpose, const Factor &scale) {
  if (purpose == Purpose::size || !q.any || scale.given.data || code_kind(q.dtype) != CodeKind::integer) return true;
  return refuse(
      "%s.data is NULL, but %s is of %s, whose codes are factors of a scale; expected one a tensor, head, token or "
      "channel: the dimensions of %s, each of which may be 1",
      scale.name, q.name, dtype_name(q.dtype), q.name);
}

/// Scales and zeros that the call computes.
bool check_computed(const Quantised &q, const Factor &scale, const Factor &zero) {
  if (!q.any || !is_quantised(q.dtype) || code_kind(q.dtype) == CodeKind::block) return true;
  const char *const type = dtype_name(q.dtype);
  if (!scale.given.data)
    return refuse(
        "%s.data is NULL, but args.flags has FA_APPEND_COMPUTE_SCALES and %s is of %s; expected a tensor for the "
        "scales, with the dimensions of %s, the last one the groups of channels",
        scale.name, q.name, type, q.name);
  const bool has_zero = is_unsigned(q.dtype);
  if (has_zero && !zero.given.data)
    return refuse(
        "%s.data is NULL, but args.flags has FA_APPEND_COMPUTE_SCALES and %s is of %s; expected a tensor for the "
        "zeros, shaped as %s",
        zero.name, q.name, type, scale.name);
  if (!has_zero && zero.given.data)
    return refuse(
        "%s is given, but args.flags has FA_APPEND_COMPUTE_SCALES and %s is of %s, whose computed scales are "
        "symmetric; expected none, or FA_U4",
        zero.name, q.name, type);
  if (!has_zero || zero.given.shape[3] == scale.given.shape[3]) return true;
  return refuse("%s.shape[3] is %lld; expected %lld, as %s, with which it is computed", zero.name,
                ll{zero.given.shape[3]}, ll{scale.given.shape[3]}, scale.name);
}

/// read_factors of any args with the four tensors.
template <class Args>
bool read_all(const Quantised &k, const Quantised &v, const Args &args, FactorChannels *channels) {
  return read_factor(k, {"args.k_scale", args.k_scale}, &channels->k_scale) &&
         read_factor(k, {"args.k_zero", args.k_zero}, &channels->k_zero) &&
         read_factor(v, {"args.v_scale", args.v_scale}, &channels->v_scale) &&
         read_factor(v, {"args.v_zero", args.v_zero}, &channels->v_zero);
}

}  // namespace

bool read_factors(const fa_forward_args &args, Purpose purpose, ForwardCall *call) {
  const Attention &a = *call->attention;
  const Quantised k = {"k", "desc.dtype_kv", a.kv_dtype, bool(call->k), name_of_dim_k(a), a.head_dim_k()};
  const Quantised v = {"v", "desc.dtype_v", a.v_dtype, bool(call->v), "desc.head_dim_v", a.head_dim_v};
  return read_all(k, v, args, &call->channels) && check_scale(k, purpose, {"args.k_scale", args.k_scale}) &&
         check_scale(v, purpose, {"args.v_scale", args.v_scale});
}

bool read_factors(const fa_append_args &args, Purpose purpose, AppendCall *call) {
  const Attention &a = *call->attention;
  const bool has_v = args.v_cache.data != nullptr;
  const Quantised k = {"k_cache", "desc.dtype_kv", a.kv_dtype, bool(call->k), name_of_dim_k(a), a.head_dim_k()};
  const Quantised v = {"v_cache", "desc.dtype_v", a.v_dtype, bool(call->v), "desc.head_dim_v", a.head_dim_v};
  if (call->computes_scales && !is_quantised(a.kv_dtype) && !(has_v && is_quantised(a.v_dtype)))
    return refuse(
        "args.flags has FA_APPEND_COMPUTE_SCALES, but the cache is of %s, which is not quantised; expected no such "
        "flag, or FA_I8, FA_E4M3, FA_E5M2, FA_I4, FA_U4, FA_Q8_0 or FA_Q4_0 (desc.dtype_kv, desc.dtype_v)",
        dtype_name(a.kv_dtype));
  if (!read_all(k, v, args, &call->channels)) return false;
  const Factor k_scale = {"args.k_scale", args.k_scale}, v_scale = {"args.v_scale", args.v_scale};
  if (call->computes_scales && purpose == Purpose::run)
    return check_computed(k, k_scale, {"args.k_zero", args.k_zero}) &&
           check_computed(v, v_scale, {"args.v_zero", args.v_zero});
  return check_scale(k, purpose, k_scale) && check_scale(v, purpose, v_scale);
}

}  // namespace fa::api
