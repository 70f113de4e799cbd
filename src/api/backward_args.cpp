// fa_backward_args: its defaults, the combinations that are refused, and the order in which its fields are read.
#include <algorithm>
#include <cstddef>
#include <iterator>

#include "api/args.h"
#include "api/fields.h"
#include "api/overlap.h"
#include "api/struct_size.h"
#include "api/tensors.h"
#include "core/dtype.h"

namespace fa::api {
namespace {

/// The last field that a caller must have: a shorter structure describes no call.
constexpr StructSizeRule<fa_backward_args> size_rule = {
    "fa_backward_args", offsetof(fa_backward_args, dv) + sizeof(fa_backward_args::dv), "call fa_backward_args_init"};

constexpr fa_backward_args defaults = {};

/// A gradient that can be added to the contents of its tensor.
struct Gradient {
  uint32_t bit;
  const char *flag;
  const char *name;
  View BackwardCall::*view;
};

constexpr Gradient gradients[] = {{FA_ACCUMULATE_DQ, "FA_ACCUMULATE_DQ", "args.dq", &BackwardCall::dq},
                                  {FA_ACCUMULATE_DK, "FA_ACCUMULATE_DK", "args.dk", &BackwardCall::dk},
                                  {FA_ACCUMULATE_DV, "FA_ACCUMULATE_DV", "args.dv", &BackwardCall::dv},
                                  {FA_ACCUMULATE_DBIAS, "FA_ACCUMULATE_DBIAS", "args.dbias", &BackwardCall::dbias},
                                  {FA_ACCUMULATE_DSINKS, "FA_ACCUMULATE_DSINKS", "args.dsinks", &BackwardCall::dsinks}};

bool check_combinations(const fa_backward_args &args) {
  if (args.block_table.data) {
    return refuse(
        "args.block_table is given, but fa_backward does not support pages; expected k and v as one tensor, packed "
        "(cu_seqlens_k) or padded (seqused_k)");
  }
  if (args.dbias.data && !args.bias.data) {
    return refuse("args.dbias without args.bias; expected the bias that the scores had: zeros where there was none");
  }
  if (args.dsinks.data && !args.sinks.data) {
    return refuse("args.dsinks without args.sinks; expected the sinks that the softmax had");
  }
  return check_arrays(args);
}

/// Gradients are those of k and v, of which codes hold too few bits, and both are of one type.
bool check_types(const Attention &a) {
  const struct {
    const char *field, *name;
    fa_dtype dtype;
  } types[] = {{"desc.dtype_kv", "k", a.kv_dtype}, {"desc.dtype_v", "v", a.v_dtype}};
  for (const auto &type : types) {
    if (!is_quantised(type.dtype)) continue;
    return refuse("%s is %s, but fa_backward does not support a quantised %s; expected FA_F32, FA_F16 or FA_BF16",
                  type.field, dtype_name(type.dtype), type.name);
  }
  if (a.head_dim_rope != 0)
    return refuse("desc.head_dim_rope is %lld, but fa_backward does not support keys in two parts; expected 0",
                  ll{a.head_dim_rope});
  if (a.rotates_cache())
    return refuse(
        "desc.flags holds %s, but fa_backward does not support rotated keys and values; expected neither flag",
        a.hadamard_k > 1 ? "FA_FLAG_HADAMARD_K" : "FA_FLAG_HADAMARD_V");
  if (a.v_dtype == a.kv_dtype) return true;
  return refuse("desc.dtype_v is %s, and desc.dtype_kv %s; fa_backward expects one type of k and v",
                dtype_name(a.v_dtype), dtype_name(a.kv_dtype));
}

bool read_numbers(const fa_backward_args &args, BackwardCall *call) {
  uint32_t known = 0;
  for (const Gradient &g : gradients) known |= g.bit;
  call->stream = args.stream;
  call->accumulate = args.accumulate;
  if (!check_numbers(args)) return false;
  if ((args.accumulate & ~known) == 0) return true;
  return refuse("args.accumulate is %#x; expected FA_ACCUMULATE_* or-ed together: bits %#x are not defined",
                args.accumulate, args.accumulate & ~known);
}

/// Values derived from the tensors that have been read.
bool check_gradients(const fa_backward_args &args, BackwardCall *call) {
  std::copy(std::begin(args.dbias.shape), std::end(args.dbias.shape), call->dbias_shape);
  call->dsinks_batch = args.dsinks.shape[0];
  for (const Gradient &g : gradients) {
    const View &view = call->*g.view;
    if (!view || !call->adds_to(g.bit) || view.dtype == FA_F32) continue;
    return refuse("args.accumulate has %s, but %s is of %s; expected FA_F32, as sums of calls lose their bits in fewer",
                  g.flag, g.name, dtype_name(view.dtype));
  }
  return true;
}

/// dout . out of each row comes from one of the two.
bool check_delta(const BackwardCall &call) {
  if (call.out || call.delta || !call.dout) return true;
  return refuse(
      "args.out.data is NULL, and so is args.delta.data; expected out as fa_forward wrote it, or delta, the dot "
      "product of dout and out of each row");
}

}  // namespace

bool read_args(const Attention &attention, const fa_backward_args *args, Purpose purpose, BackwardCall *call) {
  if (!args) return refuse("args is NULL; expected an fa_backward_args set by fa_backward_args_init");
  fa_backward_args storage;
  const fa_backward_args *a = upgrade_struct(size_rule, args, defaults, &storage);
  if (!a) return false;
  call->attention = &attention;
  return check_types(attention) && check_combinations(*a) && read_numbers(*a, call) && read_arrays(*a, call) &&
         read_tensors(attention, *a, purpose, call) && check_gradients(*a, call) &&
         (purpose == Purpose::size || (check_delta(*call) && read_workspace(*a, call) && check_overlap(*a, *call)));
}

}  // namespace fa::api

void fa_backward_args_init(fa_backward_args *args, size_t struct_size) {
  fa::api::initialise(args, struct_size, fa::api::defaults);
}
