// fa_forward_args: its defaults, the combinations that are refused, and the order in which its fields are read.
#include "api/args.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "api/fields.h"
#include "api/overlap.h"
#include "api/quantised.h"
#include "api/struct_size.h"
#include "api/tensors.h"

namespace fa::api {
namespace {

/// The last field that a caller must have: a shorter structure describes no call.
constexpr StructSizeRule<fa_forward_args> size_rule = {
    "fa_forward_args", offsetof(fa_forward_args, out) + sizeof(fa_forward_args::out), "call fa_forward_args_init"};

constexpr fa_forward_args defaults = {};

bool check_combinations(const Attention &attention, const fa_forward_args &args) {
  if (args.block_table.data && args.cu_seqlens_k) {
    return refuse("args.block_table with args.cu_seqlens_k: pages have no packed layout; give seqused_k instead");
  }
  if (args.block_table.data && args.kv_batch_idx) {
    return refuse(
        "args.block_table with args.kv_batch_idx: the table's rows already choose the pages; permute them instead");
  }
  if (args.tree_mask.data && attention.mask == FA_MASK_NONE) {
    return refuse(
        "args.tree_mask with desc.mask FA_MASK_NONE: a tree takes the place of the causal rule; expected "
        "FA_MASK_CAUSAL or FA_MASK_CAUSAL_TOP_LEFT");
  }
  if (args.k_rope.data && attention.head_dim_rope == 0) {
    return refuse(
        "args.k_rope is given, but desc.head_dim_rope is 0; expected the number of a key's last elements that it has");
  }
  if (args.tree_depth.data && !args.tree_mask.data) {
    return refuse("args.tree_depth without args.tree_mask; expected the tree whose tokens have these depths");
  }
  if (!check_arrays(args)) return false;
  if (args.num_splits != 0 && attention.batch_invariant) {
    return refuse("args.num_splits is %d with FA_FLAG_BATCH_INVARIANT: the split is fixed by that flag; expected 0",
                  args.num_splits);
  }
  return true;
}

/// Keys whose last elements are missing.
bool check_rope(const ForwardCall &call, Purpose purpose) {
  if (purpose == Purpose::size || call.attention->head_dim_rope == 0 || !call.k || call.k_rope) return true;
  return refuse("args.k_rope.data is NULL, but desc.head_dim_rope is %lld; expected the last %lld elements of each key",
                ll{call.attention->head_dim_rope}, ll{call.attention->head_dim_rope});
}

/// The element of a row of k at which values begin that are a part of the keys; -1 where they are not.
int64_t begin_of_values(const ForwardCall &call) {
  const View &k = call.k, &v = call.v;
  if (!k || !v || k.dtype != v.dtype || !std::equal(k.stride, k.stride + 4, v.stride)) return -1;
  const Unit unit = unit_of(k.dtype);
  const int64_t step = k.stride[3] != 0 ? k.stride[3] : unit.bytes;
  const auto bytes = static_cast<int64_t>(reinterpret_cast<intptr_t>(v.data) - reinterpret_cast<intptr_t>(k.data));
  const int64_t element = bytes / step * (k.stride[3] != 0 ? 1 : unit.elements);
  return bytes % step == 0 && element >= 0 && element < call.attention->head_dim_k() ? element : -1;
}

/// Values that are a part of the keys are rotated as these are.
bool check_rotation(const ForwardCall &call, Purpose purpose) {
  const Attention &a = *call.attention;
  if (purpose == Purpose::size || !a.rotates_cache()) return true;
  const int64_t begin = begin_of_values(call);
  if (begin < 0 || (a.hadamard_k == a.hadamard_v && begin % a.hadamard_k == 0)) return true;
  return refuse(
      "args.v is elements %lld .. %lld of args.k, but blocks of %lld elements of k are rotated, and of %lld elements "
      "of v (1: none is); expected values that are rotated as their keys: FA_FLAG_HADAMARD_K and FA_FLAG_HADAMARD_V or "
      "neither, and dimensions that the same powers of 2 divide (desc.head_dim less desc.head_dim_rope, "
      "desc.head_dim_v)",
      ll{begin}, ll{begin + a.head_dim_v - 1}, ll{a.hadamard_k}, ll{a.hadamard_v});
}

bool read_numbers(const fa_forward_args &args, ForwardCall *call) {
  call->num_splits = args.num_splits;
  call->stream = args.stream;
  return check_numbers(args) &&
         in_range("args.num_splits", args.num_splits, 0, FA_MAX_SPLITS, "0 lets the kernel choose");
}

}  // namespace

bool read_args(const Attention &attention, const fa_forward_args *args, Purpose purpose, ForwardCall *call) {
  if (!args) return refuse("args is NULL; expected an fa_forward_args set by fa_forward_args_init");
  fa_forward_args storage;
  const fa_forward_args *a = upgrade_struct(size_rule, args, defaults, &storage);
  if (!a) return false;
  call->attention = &attention;
  return check_combinations(attention, *a) && read_numbers(*a, call) && read_arrays(*a, call) &&
         read_tensors(attention, *a, purpose, call) && check_rope(*call, purpose) && check_rotation(*call, purpose) &&
         read_factors(*a, purpose, call) &&
         (purpose == Purpose::size || (read_workspace(*a, call) && check_overlap(*a, *call)));
}

}  // namespace fa::api

void fa_forward_args_init(fa_forward_args *args, size_t struct_size) {
  fa::api::initialise(args, struct_size, fa::api::defaults);
}
