// Which shape and type each tensor of a call must have, derived in one direction: q, then k and v, then the rest.
#include "api/tensors.h"

#include <algorithm>
#include <utility>

#include "api/view.h"

namespace fa::api {
namespace {

constexpr Dim one = exactly(1, "unused dimension");
constexpr Types f32 = just(FA_F32);
constexpr Types floats = {FA_F32, float_types, ""};

constexpr Use read = {.written = false, .data = true};
constexpr Use written = {.written = true, .data = true};

/// How a required tensor is used for a purpose.
constexpr Use required(Use use, Purpose purpose) {
  return {use.written, purpose == Purpose::run};
}

/// Reads a tensor that is absent when it has no data.
bool read_optional(const char *name, const fa_tensor &t, Use use, const Types &types, const Shape &shape, View *view) {
  return !t.data || read_tensor(name, t, use, types, shape, view);
}

/// The first dimension of q.
Dim batch_dim(const fa_args &args) {
  if (args.cu_seqlens_q) return exactly(1, "cu_seqlens_q packs all sequences into one");
  if (args.cu_seqlens_k || args.num_seqs != 0) return exactly(args.num_seqs, "num_seqs");
  return any("sequences");
}

/// The first dimension of k and v.
Dim batch_k_dim(const fa_args &args, const Problem &problem) {
  if (args.block_table.data) return any("pages");
  if (args.cu_seqlens_k) return exactly(1, "cu_seqlens_k packs all sequences into one");
  if (args.kv_batch_idx) return any("rows of the cache");
  return exactly(problem.batch, args.cu_seqlens_q ? "num_seqs" : "sequences of q");
}

bool check_num_seqs(const fa_args &args) {
  const int64_t rows = args.cu_seqlens_q ? args.q.shape[1] : args.q.shape[0];
  if (!args.cu_seqlens_q && !args.cu_seqlens_k) return true;
  if (args.num_seqs != 0 || rows <= 0) return true;
  const char *name = args.cu_seqlens_q ? "cu_seqlens_q" : "cu_seqlens_k";
  return refuse(
      "args.num_seqs is 0, but args.%s is given; expected the number of sequences, which is the entries of "
      "%s less one",
      name, name);
}

bool check_heads(const Problem &p) {
  const bool divides = p.heads_kv == 0 ? p.heads_q == 0 : p.heads_q % p.heads_kv == 0;
  if (divides) [[likely]]
    return true;
  return refuse(
      "args.k.shape[2] is %lld, but q has %lld heads; expected a divisor of %lld, so that each head of k and "
      "v serves as many heads of q",
      ll{p.heads_kv}, ll{p.heads_q}, ll{p.heads_q});
}

/// The rows of k that a sequence may have, and the number of them that a page holds.
bool derive_rows_k(const fa_args &args, Problem *problem) {
  problem->rows_k = args.k.shape[1];
  if (!args.block_table.data) return true;
  problem->page_size = args.k.shape[1];
  problem->rows_k = args.block_table.shape[1] * problem->page_size;
  return in_range("args.block_table.shape[1] x args.k.shape[1]", problem->rows_k, 0, max_length,
                  "keys of a sequence: pages x rows of a page");
}

}  // namespace

bool read_queries(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem) {
  const Shape shape = {batch_dim(args), any("queries"), any("heads"), exactly(attention.head_dim, "desc.head_dim")};
  if (!check_num_seqs(args)) return false;
  if (!read_tensor("args.q", args.q, required(read, purpose), just(attention.q_dtype, "desc.dtype_q"), shape,
                   &problem->q)) {
    return false;
  }
  problem->batch = args.cu_seqlens_q ? args.num_seqs : args.q.shape[0];
  problem->rows_q = args.q.shape[1];
  problem->heads_q = args.q.shape[2];
  return true;
}

bool read_keys(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem) {
  const int64_t(&k)[4] = args.k.shape;
  const bool paged = args.block_table.data;
  const Shape table = {exactly(problem->batch, "sequences"), any("pages of a sequence"), one, one};
  const Shape keys = {batch_k_dim(args, *problem),
                      {paged ? 1 : 0, max_length, paged ? "rows of a page" : "keys"},
                      any("heads"),
                      exactly(attention.head_dim, "desc.head_dim")};
  const Shape values = {exactly(k[0], "as k"), exactly(k[1], "as k"), exactly(k[2], "as k"),
                        exactly(attention.head_dim_v, "desc.head_dim_v")};
  const Types types = just(attention.kv_dtype, "desc.dtype_kv");
  const Use use = required(read, purpose);
  problem->batch_k = k[0];
  problem->heads_kv = k[2];
  return read_optional("args.block_table", args.block_table, read, just(FA_I32), table, &problem->block_table) &&
         read_tensor("args.k", args.k, use, types, keys, &problem->k) &&
         read_tensor("args.v", args.v, use, types, values, &problem->v) && derive_rows_k(args, problem) &&
         check_heads(*problem);
}

bool read_outputs(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem) {
  const int64_t(&q)[4] = args.q.shape;
  const Shape out = {exactly(q[0], "as q"), exactly(q[1], "as q"), exactly(q[2], "as q"),
                     exactly(attention.head_dim_v, "desc.head_dim_v")};
  const Shape lse = {exactly(q[0], "sequences, as q"), exactly(q[2], "heads of q"), exactly(q[1], "queries, as q"),
                     one};
  return read_tensor("args.out", args.out, required(written, purpose), just(attention.out_dtype, "desc.dtype_out"), out,
                     &problem->out) &&
         read_optional("args.lse", args.lse, written, f32, lse, &problem->lse);
}

bool read_addends(const fa_args &args, Problem *problem) {
  const auto [batch, heads_q] = std::pair(problem->batch, problem->heads_q);
  const Shape scores = {repeatable(batch, batch, "sequences"), repeatable(heads_q, heads_q, "heads of q"),
                        repeatable(problem->max_seqlen_q, std::max(problem->rows_q, args.max_seqlen_q),
                                   "queries of the longest sequence: max_seqlen_q, else all rows of q"),
                        repeatable(problem->max_seqlen_k, std::max(problem->rows_k, args.max_seqlen_k),
                                   "keys of the longest sequence: max_seqlen_k, else all rows of k")};
  const Shape heads = {repeatable(batch, batch, "sequences"), exactly(heads_q, "heads of q"), one, one};
  return read_optional("args.bias", args.bias, read, floats, scores, &problem->bias) &&
         read_optional("args.mask", args.mask, read, just(FA_BOOL), scores, &problem->mask) &&
         read_optional("args.alibi_slopes", args.alibi_slopes, read, f32, heads, &problem->alibi_slopes) &&
         read_optional("args.sinks", args.sinks, read, f32, heads, &problem->sinks);
}

}  // namespace fa::api
