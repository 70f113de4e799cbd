// Which shape and type each tensor of fa_append must have: the new rows first, then the cache, then the rest.
#include <algorithm>
#include <iterator>
#include <utility>

#include "api/tensors.h"
#include "api/types.h"

namespace fa::api {
namespace {

constexpr Dim one = exactly(1, "unused dimension");

/// Reads the tensors one after another: a rule needs no more of the call than the tensors before it have given.
class Reader {
 public:
  Reader(const Attention &attention, const fa_append_args &args, Purpose purpose, AppendCall *call)
      : a_(attention), args_(args), purpose_(purpose), call_(*call) {}

  bool read(const TensorFieldOf<fa_append_args, AppendCall> &t) {
    const fa_tensor &given = args_.*t.given;
    const bool required = t.presence == Presence::required;
    const Use use = {.written = is_written(call_, t.access), .data = !required || purpose_ == Purpose::run};
    if (!required && !given.data) return true;
    return read_tensor(t.name, given, use, types_of(t.type, a_), shape(t.shape), &(call_.*t.view)) && derive(t.shape);
  }

 private:
  Shape shape(ShapeRule rule) const {
    const Dim dim = exactly(a_.head_dim, "desc.head_dim"), dim_k = exactly(a_.head_dim_k(), name_of_dim_k(a_)),
              dim_rope = exactly(a_.head_dim_rope, "desc.head_dim_rope"),
              dim_v = exactly(a_.head_dim_v, "desc.head_dim_v");
    const int64_t (&k)[4] = args_.k.shape, (&cache)[4] = args_.k_cache.shape, (&q)[4] = args_.q.shape;
    switch (rule) {
      case ShapeRule::new_keys:
        return {batch(), any("new tokens"), any("heads"), dim_k};
      case ShapeRule::new_values:
        return {exactly(k[0], "as k"), exactly(k[1], "as k"), exactly(k[2], "as k"), dim_v};
      case ShapeRule::pages:
        return {exactly(call_.batch, "sequences"), any("pages of a sequence"), one, one};
      case ShapeRule::keys:
        return {entries(), rows(), exactly(call_.heads_kv, "heads, as k"), dim_k};
      case ShapeRule::values:
        return {exactly(cache[0], "as k_cache"), exactly(cache[1], "as k_cache"),
                exactly(call_.heads_kv, "heads, as k"), dim_v};
      case ShapeRule::new_rope_keys:
        return {exactly(k[0], "as k"), exactly(k[1], "as k"), exactly(k[2], "as k"), dim_rope};
      case ShapeRule::rope_keys:
        return {exactly(cache[0], "as k_cache"), exactly(cache[1], "as k_cache"),
                exactly(call_.heads_kv, "heads, as k"), dim_rope};
      case ShapeRule::of_keys:
        return factors(a_.head_dim_k(), "groups of channels: a divisor of the elements of a row of k_cache");
      case ShapeRule::of_values:
        return factors(a_.head_dim_v, "groups of channels: a divisor of desc.head_dim_v");
      case ShapeRule::queries:
        return {exactly(k[0], "as k"), queries(), any("heads"), dim};
      case ShapeRule::as_q:
        return {exactly(q[0], "as q"), exactly(q[1], "as q"), exactly(q[2], "as q"), dim};
      case ShapeRule::rotary:
        return {one, any("positions"), one, {1, a_.head_dim / 2, "pairs of a row: rotary_dim / 2"}};
      case ShapeRule::as_rotary_cos:
        return {one, exactly(call_.rotary_rows, "as rotary_cos"), one, exactly(call_.rotary_pairs, "as rotary_cos")};
      case ShapeRule::new_places:
        return {exactly(k[0], "as k"), exactly(k[1], "new tokens, as k"), one, one};
      case ShapeRule::query_places:
        return {exactly(q[0], "as q"), exactly(q[1], "queries, as q"), one, one};
      default:
        break;
    }
    __builtin_unreachable();
  }

  /// The first dimension of k.
  Dim batch() const {
    if (args_.cu_seqlens_new) return exactly(1, "cu_seqlens_new packs all sequences into one");
    return args_.num_seqs != 0 ? exactly(args_.num_seqs, "num_seqs") : any("sequences");
  }

  /// The first dimension of the cache.
  Dim entries() const {
    if (in_pages()) return any("pages");
    const bool nothing_new =
        call_.batch == 0 || call_.rows_new == 0;  // slots without memory do not say that there are pages
    if (args_.kv_batch_idx || nothing_new) return any("entries of the cache");
    return exactly(call_.batch, args_.cu_seqlens_new ? "num_seqs" : "sequences, as k");
  }

  Dim rows() const { return in_pages() ? Dim{1, max_length, "rows of a page"} : any("rows of the cache"); }

  /// The shape of scales and zeros.
  Shape factors(int64_t dim, const char *groups) const {
    Shape shape = {};
    for (size_t i = 0; i < 3; ++i) {
      const int64_t length = args_.k_cache.shape[i];
      shape[i] = call_.computes_scales
                     ? exactly(length, "as k_cache: FA_APPEND_COMPUTE_SCALES writes one for each token and head")
                     : repeatable(length, length, "as k_cache");
    }
    shape[3] = {1, dim, groups};
    return shape;
  }

  bool in_pages() const { return args_.block_table.data || args_.slot_mapping.data; }

  /// The second dimension of q.
  Dim queries() const {
    if (args_.cu_seqlens_new) return exactly(call_.rows_new, "cu_seqlens_new packs q as it does k");
    if (args_.seqused_new) return exactly(call_.rows_new, "as k: seqused_new is that of both");
    if (args_.positions.data && !args_.q_positions.data) {
      return exactly(call_.rows_new, "as k, whose positions q has; else give q_positions");
    }
    return any("queries");
  }

  /// The members of the call that follow from a tensor whose shape is legal.
  bool derive(ShapeRule shape) {
    if (shape == ShapeRule::new_keys) {
      call_.batch = args_.cu_seqlens_new ? args_.num_seqs : args_.k.shape[0];
      call_.rows_new = args_.k.shape[1];
      call_.heads_kv = args_.k.shape[2];
      return derive_bound();
    }
    if (shape == ShapeRule::keys) return derive_cache();
    if (shape == ShapeRule::queries) {
      call_.rows_q = args_.q.shape[1];
      call_.heads_q = args_.q.shape[2];
    } else if (shape == ShapeRule::rotary) {
      call_.rotary_rows = args_.rotary_cos.shape[1];
      call_.rotary_pairs = args_.rotary_cos.shape[3];
    }
    return true;
  }

  bool derive_bound() {
    const int64_t given = args_.max_seqlen_new, rows = call_.rows_new;
    call_.max_seqlen_new = given == 0 ? rows : std::min(given, rows);
    if (call_.batch == 0 || args_.cu_seqlens_new || args_.seqused_new || call_.max_seqlen_new == rows) return true;
    return refuse(
        "args.max_seqlen_new is %lld, but every sequence has all %lld rows of k; expected at least %lld, or "
        "seqused_new to say how many are used",
        ll{given}, ll{rows}, ll{rows});
  }

  bool derive_cache() {
    call_.batch_cache = args_.k_cache.shape[0];
    call_.rows_cache = args_.k_cache.shape[1];
    if (!in_pages()) return true;
    call_.page_size = args_.k_cache.shape[1];
    if (!args_.block_table.data) return true;
    call_.rows_cache = args_.block_table.shape[1] * call_.page_size;
    return in_range("args.block_table.shape[1] x args.k_cache.shape[1]", call_.rows_cache, 0, max_length,
                    "rows of a sequence: pages x rows of a page");
  }

  const Attention &a_;
  const fa_append_args &args_;
  Purpose purpose_;
  AppendCall &call_;
};

bool check_num_seqs(const fa_append_args &args) {
  if (!args.cu_seqlens_new || args.num_seqs != 0 || args.k.shape[1] <= 0) return true;
  return refuse(
      "args.num_seqs is 0, but args.cu_seqlens_new is given; expected the number of sequences, which is the entries of "
      "cu_seqlens_new less one");
}

/// Keys without values, or values without keys, where there are any to write.
bool check_values(const fa_append_args &args, const AppendCall &call) {
  if (!args.v.data == !args.v_cache.data || args.k.shape[0] * call.rows_new * call.heads_kv == 0) return true;
  return refuse("args.%s without args.%s: expected both, or neither where the keys hold the values",
                args.v.data ? "v" : "v_cache", args.v.data ? "v_cache" : "v");
}

/// Both parts of keys, or one where there is one; and pairs of one part alone.
bool check_rope(const fa_append_args &args, Purpose purpose, const AppendCall &call) {
  const int64_t rope = call.attention->head_dim_rope, rotated = 2 * call.rotary_pairs;
  if (rope == 0) return true;
  const bool any = args.k.shape[0] * call.rows_new * call.heads_kv != 0;
  if (purpose == Purpose::run && any && !(call.k_rope && call.k_rope_cache)) {
    return refuse("args.%s.data is NULL, but desc.head_dim_rope is %lld; expected both k_rope and k_rope_cache",
                  call.k_rope ? "k_rope_cache" : "k_rope", ll{rope});
  }
  const int64_t one_part = call.rotates_tail ? rope : call.attention->head_dim_k();
  if (rotated <= one_part) return true;
  return refuse(
      "args.rotary_cos.shape[3] is %lld, so that %lld elements of a row are rotated, but %s has %lld of them "
      "(desc.head_dim_rope is %lld); expected pairs of one part of a key",
      ll{call.rotary_pairs}, ll{rotated}, call.rotates_tail ? "k_rope" : "k", ll{one_part}, ll{rope});
}

}  // namespace

template <>
bool read_tensors(const Attention &attention, const fa_append_args &args, Purpose purpose, AppendCall *call) {
  if (!check_num_seqs(args)) return false;
  Reader reader(attention, args, purpose, call);
  for (const auto &field : Fields<AppendCall>::tensors) {
    if (!reader.read(field)) return false;
  }
  return check_values(args, *call) && check_rope(args, purpose, *call);
}

}  // namespace fa::api
