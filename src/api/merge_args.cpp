// fa_merge_args: its defaults, and the order in which its fields are read: out, from whose shape all others follow,
// then the parts.
#include <cstddef>

#include "api/args.h"
#include "api/fields.h"
#include "api/overlap.h"
#include "api/struct_size.h"
#include "api/view.h"
#include "core/parts.h"

namespace fa::api {
namespace {

/// The last field that a caller must have: a shorter structure describes no call.
constexpr StructSizeRule<fa_merge_args> size_rule = {
    "fa_merge_args", offsetof(fa_merge_args, out) + sizeof(fa_merge_args::out), "call fa_merge_args_init"};

constexpr fa_merge_args defaults = {};

constexpr Dim one = exactly(1, "unused dimension");

bool check_array(const char *name, const fa_tensor *array, int32_t parts) {
  if (array) return check_aligned(name, "", array, alignof(fa_tensor));
  return refuse("%s is NULL; expected an array of args.num_parts tensors, which are %d", name, parts);
}

bool read_numbers(const fa_merge_args &args, MergeCall *call) {
  constexpr uint32_t known = FA_MERGE_BASE_2;
  call->stream = args.stream;
  call->num_parts = args.num_parts;
  call->base_2 = args.flags & FA_MERGE_BASE_2;
  if (args.flags & ~known) {
    return refuse("args.flags is %#x; expected FA_MERGE_BASE_2, or 0: bits %#x mean nothing in libfa %s", args.flags,
                  args.flags & ~known, FA_VERSION_STRING);
  }
  return in_range("args.num_parts", args.num_parts, 1, FA_MAX_PARTS,
                  "more parts take several merges, each with the result of the one before it as its first part") &&
         check_array("args.outs", args.outs, args.num_parts) && check_array("args.lses", args.lses, args.num_parts);
}

bool read_results(const Attention &attention, const fa_merge_args &args, Purpose purpose, MergeCall *call) {
  const int64_t (&n)[4] = args.out.shape;
  const Shape out = {any("sequences"), any("queries"), any("heads"), exactly(attention.head_dim_v, "desc.head_dim_v")};
  const Use use = {.written = true, .data = purpose == Purpose::run};
  if (!read_tensor("args.out", args.out, use, just(attention.out_dtype, "desc.dtype_out"), out, &call->out))
    return false;
  call->batch = n[0], call->rows_q = n[1], call->heads_q = n[2];
  const Shape lse = {exactly(n[0], "sequences, as out"), exactly(n[2], "heads of out"),
                     exactly(n[1], "queries, as out"), one};
  if (args.lse.data && !read_tensor("args.lse", args.lse, {true, true}, just(FA_F32), lse, &call->lse)) return false;
  const Shape mask = {repeatable(n[0], n[0], "sequences, as out"), repeatable(n[2], n[2], "heads of out"),
                      exactly(n[1], "queries, as out"), one};
  return !args.mask.data || read_tensor("args.mask", args.mask, {false, true}, just(FA_BOOL), mask, &call->mask);
}

bool read_parts(const Attention &attention, const fa_merge_args &args, Purpose purpose, MergeCall *call) {
  const int64_t (&n)[4] = args.out.shape;
  const Use use = {.written = false, .data = purpose == Purpose::run};
  const Shape out = {exactly(n[0], "as out"), exactly(n[1], "as out"), exactly(n[2], "as out"),
                     exactly(n[3], "as out")};
  const Shape lse = {exactly(n[0], "sequences, as out"), exactly(n[2], "heads of out"),
                     exactly(n[1], "queries, as out"), one};
  for (int p = 0; p < args.num_parts; p++) {
    const Types any_float = {attention.out_dtype, float_types, ""};
    if (!read_tensor(out_names.of[p], args.outs[p], use, any_float, out, &call->outs[p]) ||
        !read_tensor(lse_names.of[p], args.lses[p], use, just(FA_F32), lse, &call->lses[p]))
      return false;
  }
  return true;
}

}  // namespace

bool read_args(const Attention &attention, const fa_merge_args *args, Purpose purpose, MergeCall *call) {
  if (!args) return refuse("args is NULL; expected an fa_merge_args set by fa_merge_args_init");
  fa_merge_args storage;
  const fa_merge_args *a = upgrade_struct(size_rule, args, defaults, &storage);
  if (!a) return false;
  call->attention = &attention;
  return read_numbers(*a, call) && read_results(attention, *a, purpose, call) &&
         read_parts(attention, *a, purpose, call) &&
         (purpose == Purpose::size || (read_workspace(*a, call) && check_overlap(*a, *call)));
}

}  // namespace fa::api

void fa_merge_args_init(fa_merge_args *args, size_t struct_size) {
  fa::api::initialise(args, struct_size, fa::api::defaults);
}
