// fa_args: its defaults, the combinations that are refused, and the order in which its fields are read.
#include "api/args.h"

#include <algorithm>
#include <cstddef>

#include "api/overlap.h"
#include "api/struct_size.h"
#include "api/tensors.h"
#include "api/view.h"

namespace fa::api {
namespace {

/// The last field that a caller must have: a shorter structure describes no call.
constexpr Form<fa_args> form = {"fa_args", offsetof(fa_args, out) + sizeof(fa_args::out), "call fa_args_init"};

constexpr fa_args defaults = {};

struct Array {
  const char *name;
  const int32_t *fa_args::*from;
  const int32_t *Problem::*to;
};

constexpr Array arrays[] = {
    {"args.cu_seqlens_q", &fa_args::cu_seqlens_q, &Problem::cu_seqlens_q},
    {"args.cu_seqlens_k", &fa_args::cu_seqlens_k, &Problem::cu_seqlens_k},
    {"args.seqused_q", &fa_args::seqused_q, &Problem::seqused_q},
    {"args.seqused_k", &fa_args::seqused_k, &Problem::seqused_k},
    {"args.leftpad_k", &fa_args::leftpad_k, &Problem::leftpad_k},
    {"args.kv_batch_idx", &fa_args::kv_batch_idx, &Problem::kv_batch_idx},
    {"args.q_offset", &fa_args::q_offset, &Problem::q_offset},
};

bool read_arrays(const fa_args &args, Problem *problem) {
  for (const Array &array : arrays) {
    problem->*array.to = args.*array.from;
    if (!check_aligned(array.name, "", args.*array.from, sizeof(int32_t))) return false;
  }
  return true;
}

bool check_combinations(const Attention &attention, const fa_args &args) {
  if (args.block_table.data && args.cu_seqlens_k) {
    return refuse("args.block_table with args.cu_seqlens_k: pages have no packed layout; give seqused_k instead");
  }
  if (args.block_table.data && args.kv_batch_idx) {
    return refuse(
        "args.block_table with args.kv_batch_idx: the table's rows already choose the pages; permute them "
        "instead");
  }
  if (args.kv_batch_idx && args.cu_seqlens_k) {
    return refuse("args.kv_batch_idx with args.cu_seqlens_k: a packed tensor has no batch rows to choose");
  }
  if (args.num_splits != 0 && attention.batch_invariant) {
    return refuse("args.num_splits is %d with FA_FLAG_BATCH_INVARIANT: the split is fixed by that flag; expected 0",
                  args.num_splits);
  }
  return true;
}

bool read_numbers(const fa_args &args, Problem *problem) {
  problem->num_splits = args.num_splits;
  problem->stream = args.stream;
  return in_range("args.num_seqs", args.num_seqs, 0, max_length, "sequences of cu_seqlens_*; 0 without them") &&
         in_range("args.max_seqlen_q", args.max_seqlen_q, 0, max_length, "0 is all rows of q") &&
         in_range("args.max_seqlen_k", args.max_seqlen_k, 0, max_length, "0 is all rows of k") &&
         in_range("args.num_splits", args.num_splits, 0, FA_MAX_SPLITS, "0 lets the kernel choose") &&
         in_range("args.reserved", args.reserved, 0, 0);
}

bool check_workspace(const fa_args &args, Problem *problem) {
  problem->workspace = args.workspace;
  problem->workspace_size = args.workspace_size;
  if (!args.workspace && args.workspace_size != 0) {
    return refuse(
        "args.workspace is NULL, but args.workspace_size is %zu; expected memory of that size, or 0 to have "
        "it allocated by the call",
        args.workspace_size);
  }
  if (reinterpret_cast<uintptr_t>(args.workspace) % 256 != 0) {
    return refuse("args.workspace is %p; expected a multiple of 256: allocate it with aligned_alloc(256, size)",
                  args.workspace);
  }
  return true;
}

/// What bounds the length of the sequences along q or k.
struct Bound {
  const char *name;    // "max_seqlen_q"
  const char *tensor;  // "q"
  const char *fewer;   // what gives sequences fewer rows than the tensor has
  int64_t given;       // args' own bound, 0 when unknown
  int64_t rows;        // of the tensor
  bool fixed;          // every sequence has exactly these rows
};

bool read_bound(const Bound &b, int64_t *bound) {
  *bound = b.given == 0 ? b.rows : std::min(b.given, b.rows);
  if (!b.fixed || *bound == b.rows) return true;
  return refuse(
      "args.%s is %lld, but every sequence has all %lld rows of %s; expected at least %lld, or %s that says "
      "how many are used",
      b.name, ll{b.given}, ll{b.rows}, b.tensor, ll{b.rows}, b.fewer);
}

bool read_bounds(const fa_args &args, Problem *p) {
  const bool any = p->batch > 0;
  const bool fixed_q = any && !args.cu_seqlens_q && !args.seqused_q;
  const bool fixed_k = any && !args.cu_seqlens_k && !args.seqused_k && !args.leftpad_k;
  return read_bound({"max_seqlen_q", "q", "seqused_q", args.max_seqlen_q, p->rows_q, fixed_q}, &p->max_seqlen_q) &&
         read_bound({"max_seqlen_k", "k", "seqused_k", args.max_seqlen_k, p->rows_k, fixed_k}, &p->max_seqlen_k);
}

}  // namespace

bool read_args(const Attention &attention, const fa_args *args, Purpose purpose, Problem *problem) {
  if (!args) return refuse("args is NULL; expected an fa_args set by fa_args_init");
  fa_args storage;
  const fa_args *a = current_form(form, args, defaults, &storage);
  if (!a) return false;
  problem->attention = &attention;
  return check_combinations(attention, *a) && read_numbers(*a, problem) && read_arrays(*a, problem) &&
         read_queries(attention, *a, purpose, problem) && read_keys(attention, *a, purpose, problem) &&
         read_bounds(*a, problem) && read_outputs(attention, *a, purpose, problem) && read_addends(*a, problem) &&
         (purpose == Purpose::size || (check_workspace(*a, problem) && check_overlap(*a, *problem)));
}

}  // namespace fa::api

void fa_args_init(fa_args *args, size_t struct_size) {
  fa::api::initialise(args, struct_size, fa::api::defaults);
}
