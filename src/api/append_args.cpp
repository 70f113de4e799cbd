// fa_append_args: its defaults, the combinations that are refused, and the order in which its fields are read.
#include <cstddef>

#include "api/args.h"
#include "api/fields.h"
#include "api/overlap.h"
#include "api/quantised.h"
#include "api/struct_size.h"
#include "api/tensors.h"

namespace fa::api {
namespace {

/// The last field that a caller must have: a shorter structure describes no call.
constexpr StructSizeRule<fa_append_args> size_rule = {
    "fa_append_args", offsetof(fa_append_args, v_cache) + sizeof(fa_append_args::v_cache), "call fa_append_args_init"};

constexpr fa_append_args defaults = {};

constexpr uint32_t rotary_flags = FA_APPEND_ROTARY_INTERLEAVED | FA_APPEND_ROTARY_TAIL,
                   known_flags = rotary_flags | FA_APPEND_COMPUTE_SCALES;

/// The fields that choose rows of the cache: slots alone, or the others.
bool check_places(const fa_append_args &args) {
  if (args.slot_mapping.data && args.block_table.data) {
    return refuse("args.slot_mapping with args.block_table: slots already choose the pages; give one of them");
  }
  if (args.slot_mapping.data && args.kv_batch_idx) {
    return refuse("args.slot_mapping with args.kv_batch_idx: slots already choose the pages");
  }
  if (args.block_table.data && args.kv_batch_idx) {
    return refuse(
        "args.block_table with args.kv_batch_idx: the table's rows already choose the pages; permute them instead");
  }
  return true;
}

bool check_pair(const char *first, const fa_tensor &a, const char *second, const fa_tensor &b) {
  if (!a.data == !b.data) return true;
  return refuse("args.%s without args.%s; expected both or neither", a.data ? first : second, a.data ? second : first);
}

bool check_rotary(const fa_append_args &args) {
  if (!check_pair("rotary_cos", args.rotary_cos, "rotary_sin", args.rotary_sin)) return false;
  if (!check_pair("q", args.q, "q_out", args.q_out)) return false;
  if (args.rotary_cos.data) {
    if (!args.slot_mapping.data || args.positions.data || args.cache_seqlens) return true;
    return refuse(
        "args.rotary_cos with args.slot_mapping, but neither args.positions nor args.cache_seqlens: slots do not say "
        "where in their sequences tokens are; expected positions");
  }
  const char *name = args.q.data             ? "q"
                     : args.positions.data   ? "positions"
                     : args.q_positions.data ? "q_positions"
                                             : nullptr;
  if (name) return refuse("args.%s without args.rotary_cos: it is for rotary embedding alone", name);
  if (!(args.flags & rotary_flags)) return true;
  return refuse("args.flags is 0x%x: FA_APPEND_ROTARY_* without args.rotary_cos; expected the tables, or no such flag",
                args.flags);
}

bool check_parts(const Attention &attention, const fa_append_args &args) {
  if (attention.head_dim_rope != 0 || (!args.k_rope.data && !args.k_rope_cache.data)) return true;
  return refuse(
      "args.%s is given, but desc.head_dim_rope is 0; expected the number of a key's last elements that it has",
      args.k_rope.data ? "k_rope" : "k_rope_cache");
}

/// Where keys hold the values, these are rotated as the keys are.
bool check_rotation(const Attention &a, const fa_append_args &args) {
  if (args.v.data || args.v_cache.data || !args.k.data || a.hadamard_v == 1 || a.hadamard_v == a.hadamard_k)
    return true;
  return refuse(
      "args.v is absent, and values are a part of the keys then, but blocks of %lld elements of k are rotated, and of "
      "%lld elements of v (1: none is); expected FA_FLAG_HADAMARD_K as well, and dimensions that the same powers of 2 "
      "divide (desc.head_dim less desc.head_dim_rope, desc.head_dim_v)",
      ll{a.hadamard_k}, ll{a.hadamard_v});
}

bool read_numbers(const fa_append_args &args, AppendCall *call) {
  call->stream = args.stream;
  call->computes_scales = args.flags & FA_APPEND_COMPUTE_SCALES;
  call->interleaved = args.flags & FA_APPEND_ROTARY_INTERLEAVED;
  call->rotates_tail = args.flags & FA_APPEND_ROTARY_TAIL;
  if (args.flags & ~known_flags) {
    return refuse("args.flags is 0x%x: 0x%x is not an FA_APPEND_* of libfa %s; expected any of 0x%x", args.flags,
                  args.flags & ~known_flags, FA_VERSION_STRING, known_flags);
  }
  return in_range("args.num_seqs", args.num_seqs, 0, max_length, "sequences of cu_seqlens_new; 0 without it") &&
         in_range("args.max_seqlen_new", args.max_seqlen_new, 0, max_length, "0 means all rows of k") &&
         in_range("args.reserved", args.reserved, 0, 0);
}

}  // namespace

bool read_args(const Attention &attention, const fa_append_args *args, Purpose purpose, AppendCall *call) {
  if (!args) return refuse("args is NULL; expected an fa_append_args set by fa_append_args_init");
  fa_append_args storage;
  const fa_append_args *a = upgrade_struct(size_rule, args, defaults, &storage);
  if (!a) return false;
  call->attention = &attention;
  return check_places(*a) && check_parts(attention, *a) && check_rotation(attention, *a) && read_numbers(*a, call) &&
         check_rotary(*a) && read_arrays(*a, call) && read_tensors(attention, *a, purpose, call) &&
         read_factors(*a, purpose, call) &&
         (purpose == Purpose::size || (read_workspace(*a, call) && check_overlap(*a, *call)));
}

}  // namespace fa::api

void fa_append_args_init(fa_append_args *args, size_t struct_size) {
  fa::api::initialise(args, struct_size, fa::api::defaults);
}
