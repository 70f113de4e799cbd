#include "api/quantised.h"

#include "api/refuse.h"

namespace fa::api {
namespace {

/// k or v, with what belongs to its codes.
struct Quantised {
  const char *name;  // "k"
  const char *type;  // where its type stems from
  fa_dtype dtype;
  bool any;  // it has elements
  const char *dim_name;
  int64_t dim;
};

bool read_groups(const Quantised &q, const char *name, const fa_tensor &t, int64_t *channels) {
  const int64_t groups = t.shape[3];
  *channels = q.dim / groups;
  if (q.dim % groups == 0) return true;
  return refuse("%s.shape[3] is %lld; expected a divisor of %s, which is %lld, as groups have equally many channels",
                name, ll{groups}, q.dim_name, ll{q.dim});
}

/// Of a scale or a zero: name says which.
bool read_factor(const Quantised &q, const char *name, const fa_tensor &t, int64_t *channels) {
  if (!t.data) return true;
  switch (code_kind(q.dtype)) {
    case CodeKind::integer:
    case CodeKind::floating:
      return read_groups(q, name, t, channels);
    case CodeKind::block:
      return refuse("%s is given, but %s is of %s, whose blocks hold their scales; expected none", name, q.name,
                    dtype_name(q.dtype));
    case CodeKind::none:
      break;
  }
  return refuse(
      "%s is given, but %s is of %s, which is not quantised; expected none, or FA_I8, FA_E4M3, FA_E5M2, FA_I4 or FA_U4 "
      "(%s)",
      name, q.name, dtype_name(q.dtype), q.type);
}

bool check_scale(const Quantised &q, const char *name, Purpose purpose, const fa_tensor &scale) {
  if (purpose == Purpose::size || !q.any || scale.data || code_kind(q.dtype) != CodeKind::integer) return true;
  return refuse(
      "%s.data is NULL, but %s is of %s, whose codes are factors of a scale; expected one a tensor, head, token or "
      "channel: the dimensions of %s, each of which may be 1",
      name, q.name, dtype_name(q.dtype), q.name);
}

}  // namespace

bool read_factors(const fa_forward_args &args, Purpose purpose, ForwardCall *call) {
  const Attention &a = *call->attention;
  const Quantised k = {"k", "desc.dtype_kv", a.kv_dtype, bool(call->k), "desc.head_dim", a.head_dim};
  const Quantised v = {"v", "desc.dtype_v", a.v_dtype, bool(call->v), "desc.head_dim_v", a.head_dim_v};
  auto &channels = call->channels;
  return read_factor(k, "args.k_scale", args.k_scale, &channels.k_scale) &&
         read_factor(k, "args.k_zero", args.k_zero, &channels.k_zero) &&
         read_factor(v, "args.v_scale", args.v_scale, &channels.v_scale) &&
         read_factor(v, "args.v_zero", args.v_zero, &channels.v_zero) &&
         check_scale(k, "args.k_scale", purpose, args.k_scale) && check_scale(v, "args.v_scale", purpose, args.v_scale);
}

}  // namespace fa::api
