// Which shape and type each tensor of a call must have, derived in one direction: q, then k and v, then the rest.
#include "api/tensors.h"

#include <algorithm>

#include "api/view.h"

namespace fa::api {
namespace {

constexpr Dim one = {1, 1, "unused dimension", false};

Data data_of(Purpose purpose) {
  return purpose == Purpose::run ? Data::required : Data::looked_past;
}

/// The first dimension of q, out and lse.
Dim batch_dim(const fa_args &args) {
  if (args.cu_seqlens_q) return exactly(1, "cu_seqlens_q packs all sequences into one");
  if (args.cu_seqlens_k || args.num_seqs != 0) return exactly(args.num_seqs, "num_seqs");
  return {.what = "sequences"};
}

/// The first dimension of k and v.
Dim batch_k_dim(const fa_args &args, const Problem &problem) {
  if (problem.block_table) return {.what = "pages"};
  if (args.cu_seqlens_k) return exactly(1, "cu_seqlens_k packs all sequences into one");
  if (args.kv_batch_idx) return {.what = "rows of the cache"};
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
      static_cast<long long>(p.heads_kv), static_cast<long long>(p.heads_q), static_cast<long long>(p.heads_q));
}

bool read_block_table(const fa_args &args, Problem *problem) {
  const TensorRule rule = {"args.block_table",
                           Data::optional,
                           false,
                           FA_I32,
                           only(FA_I32),
                           "",
                           {exactly(problem->batch, "sequences"), {.what = "pages of a sequence"}, one, one}};
  return read_tensor(rule, args.block_table, &problem->block_table);
}

/// The rows of k that a sequence may have, and the number of them that a page holds.
bool derive_rows_k(const fa_args &args, Problem *problem) {
  problem->rows_k = args.k.shape[1];
  if (!problem->block_table) return true;
  problem->page_size = args.k.shape[1];
  problem->rows_k = args.block_table.shape[1] * problem->page_size;
  return in_range("args.block_table.shape[1] x args.k.shape[1]", problem->rows_k, 0, max_length,
                  "keys of a sequence, which are pages x rows of a page");
}

}  // namespace

bool read_queries(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem) {
  const TensorRule rule = {
      "args.q",
      data_of(purpose),
      false,
      attention.q_dtype,
      only(attention.q_dtype),
      "desc.dtype_q",
      {batch_dim(args), {.what = "queries"}, {.what = "heads"}, exactly(attention.head_dim, "desc.head_dim")}};
  if (!check_num_seqs(args) || !read_tensor(rule, args.q, &problem->q)) return false;
  problem->batch = args.cu_seqlens_q ? args.num_seqs : args.q.shape[0];
  problem->rows_q = args.q.shape[1];
  problem->heads_q = args.q.shape[2];
  return true;
}

bool read_keys(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem) {
  if (!read_block_table(args, problem)) return false;
  const Dim rows = {problem->block_table ? 1 : 0, max_length, problem->block_table ? "rows of a page" : "keys", false};
  const TensorRule k = {
      "args.k",
      data_of(purpose),
      false,
      attention.kv_dtype,
      only(attention.kv_dtype),
      "desc.dtype_kv",
      {batch_k_dim(args, *problem), rows, {.what = "heads"}, exactly(attention.head_dim, "desc.head_dim")}};
  if (!read_tensor(k, args.k, &problem->k)) return false;

  const TensorRule v = {"args.v",
                        data_of(purpose),
                        false,
                        attention.kv_dtype,
                        only(attention.kv_dtype),
                        "desc.dtype_kv",
                        {exactly(args.k.shape[0], "as k"), exactly(args.k.shape[1], "as k"),
                         exactly(args.k.shape[2], "as k"), exactly(attention.head_dim_v, "desc.head_dim_v")}};
  if (!read_tensor(v, args.v, &problem->v)) return false;
  problem->batch_k = args.k.shape[0];
  problem->heads_kv = args.k.shape[2];
  return derive_rows_k(args, problem) && check_heads(*problem);
}

bool read_outputs(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem) {
  const Dim batch = exactly(args.q.shape[0], "as q");
  const Dim rows = exactly(problem->rows_q, "as q");
  const Dim heads = exactly(problem->heads_q, "as q");
  const TensorRule out = {"args.out",
                          data_of(purpose),
                          true,
                          attention.out_dtype,
                          only(attention.out_dtype),
                          "desc.dtype_out",
                          {batch, rows, heads, exactly(attention.head_dim_v, "desc.head_dim_v")}};
  const TensorRule lse = {"args.lse", Data::optional, true, FA_F32, only(FA_F32), "", {batch, heads, rows, one}};
  return read_tensor(out, args.out, &problem->out) && read_tensor(lse, args.lse, &problem->lse);
}

bool read_addends(const fa_args &args, Problem *problem) {
  const Dim batch = repeatable(problem->batch, problem->batch, "sequences");
  const Dim heads = repeatable(problem->heads_q, problem->heads_q, "heads of q");
  const Dim rows = repeatable(problem->max_seqlen_q, std::max(problem->rows_q, args.max_seqlen_q),
                              "queries of the longest sequence: max_seqlen_q, else all rows of q");
  const Dim columns = repeatable(problem->max_seqlen_k, std::max(problem->rows_k, args.max_seqlen_k),
                                 "keys of the longest sequence: max_seqlen_k, else all rows of k");
  const Dim each_head = exactly(problem->heads_q, "heads of q");
  const auto optional = [](const char *name, fa_dtype dtype, DtypeSet dtypes, Dim d0, Dim d1, Dim d2, Dim d3) {
    return TensorRule{name, Data::optional, false, dtype, dtypes, "", {d0, d1, d2, d3}};
  };
  return read_tensor(optional("args.bias", FA_F32, float_types, batch, heads, rows, columns), args.bias,
                     &problem->bias) &&
         read_tensor(optional("args.mask", FA_BOOL, only(FA_BOOL), batch, heads, rows, columns), args.mask,
                     &problem->mask) &&
         read_tensor(optional("args.alibi_slopes", FA_F32, only(FA_F32), batch, each_head, one, one), args.alibi_slopes,
                     &problem->alibi_slopes) &&
         read_tensor(optional("args.sinks", FA_F32, only(FA_F32), batch, each_head, one, one), args.sinks,
                     &problem->sinks);
}

}  // namespace fa::api
