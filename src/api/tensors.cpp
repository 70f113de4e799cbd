// Which shape and type each tensor of a call must have, derived in one direction: q, then k and v, then the rest.
#include "api/tensors.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/types.h"
#include "core/fields.h"
#include "core/operations.h"

namespace fa::api {
namespace {

constexpr Dim one = exactly(1, "unused dimension");

template <class Args>
bool check_num_seqs(const Args &args) {
  const int64_t rows = args.cu_seqlens_q ? args.q.shape[1] : args.q.shape[0];
  if (!args.cu_seqlens_q && !args.cu_seqlens_k) return true;
  if (args.num_seqs != 0 || rows <= 0) return true;
  const char *name = args.cu_seqlens_q ? "cu_seqlens_q" : "cu_seqlens_k";
  return refuse(
      "args.num_seqs is 0, but args.%s is given; expected the number of sequences, which is the entries of "
      "%s less one",
      name, name);
}

bool check_heads(const Inputs &p) {
  const bool divides = p.heads_kv == 0 ? p.heads_q == 0 : p.heads_q % p.heads_kv == 0;
  if (divides) [[likely]]
    return true;
  return refuse(
      "args.k.shape[2] is %lld, but q has %lld heads; expected a divisor of %lld, so that each head of k and "
      "v is shared by the same number of heads of q",
      ll{p.heads_kv}, ll{p.heads_q}, ll{p.heads_q});
}

/// The bound of the lengths of sequences along q or k.
struct LengthBound {
  const char *name;    // "max_seqlen_q"
  const char *tensor;  // "q"
  const char *fewer;   // the array that gives sequences fewer rows than the tensor has
  int64_t given;       // args' own bound, 0 when unknown
  int64_t rows;        // of the tensor
  bool fixed;          // every sequence has exactly these rows
};

bool read_bound(const LengthBound &b, int64_t *bound) {
  *bound = b.given == 0 ? b.rows : std::min(b.given, b.rows);
  if (!b.fixed || *bound == b.rows) return true;
  return refuse(
      "args.%s is %lld, but every sequence has all %lld rows of %s; expected at least %lld, or %s to say "
      "how many are used",
      b.name, ll{b.given}, ll{b.rows}, b.tensor, ll{b.rows}, b.fewer);
}

/// Reads the tensors one after another: a rule may use the properties that the tensors before it define. Inlined for
/// each tensor, so that its rules are chosen at compile time and not by every call.
template <class Args, class Call>
class Reader {
 public:
  Reader(const Attention &attention, const Args &args, Purpose purpose, Call *call)
      : a_(attention), args_(args), purpose_(purpose), call_(*call) {}

  [[gnu::always_inline]] bool read(const TensorFieldOf<Args, Call> &t) {
    const fa_tensor &given = args_.*t.given;
    const bool required = t.presence == Presence::required;
    const Use use = {.written = t.access == Access::written, .data = !required || purpose_ == Purpose::run};
    if (!required && !given.data) return true;
    return read_tensor(t.name, given, use, types(t.type), shape(t.shape), &(call_.*t.view)) && derive(t.shape);
  }

 private:
  [[gnu::always_inline]] Types types(TypeRule rule) const { return types_of(rule, a_, call_.bias.dtype); }

  [[gnu::always_inline]] Shape shape(ShapeRule rule) const {
    const int64_t (&q)[4] = args_.q.shape, (&k)[4] = args_.k.shape;
    switch (rule) {
      case ShapeRule::queries:
        return {batch(), any("queries"), any("heads"), exactly(a_.head_dim, "desc.head_dim")};
      case ShapeRule::pages:
        return {exactly(call_.batch, "sequences"), any("pages of a sequence"), one, one};
      case ShapeRule::keys:
        return {batch_k(), rows_k(), any("heads"), exactly(a_.head_dim_k(), name_of_dim_k(a_))};
      case ShapeRule::values:
        return {exactly(k[0], "as k"), exactly(k[1], "as k"), exactly(k[2], "as k"),
                exactly(a_.head_dim_v, "desc.head_dim_v")};
      case ShapeRule::rope_keys:
        return {exactly(k[0], "as k"), exactly(k[1], "as k"), exactly(k[2], "as k"),
                exactly(a_.head_dim_rope, "desc.head_dim_rope")};
      case ShapeRule::of_keys:
        return factors(a_.head_dim_k(), "as k", "groups of channels: a divisor of the elements of a row of k");
      case ShapeRule::of_values:
        return factors(a_.head_dim_v, "as v", "groups of channels: a divisor of desc.head_dim_v");
      case ShapeRule::as_q:
        return {exactly(q[0], "as q"), exactly(q[1], "as q"), exactly(q[2], "as q"),
                exactly(a_.head_dim, "desc.head_dim")};
      case ShapeRule::as_k:
        return {exactly(k[0], "as k"), exactly(k[1], "as k"), exactly(k[2], "as k"),
                exactly(a_.head_dim, "desc.head_dim")};
      case ShapeRule::as_v:
        return {exactly(k[0], "as v"), exactly(k[1], "as v"), exactly(k[2], "as v"),
                exactly(a_.head_dim_v, "desc.head_dim_v")};
      case ShapeRule::results:
        return {exactly(q[0], "as q"), exactly(q[1], "as q"), exactly(q[2], "as q"),
                exactly(a_.head_dim_v, "desc.head_dim_v")};
      case ShapeRule::row_sums:
        return {exactly(q[0], "sequences, as q"), exactly(q[2], "heads of q"), exactly(q[1], "queries, as q"), one};
      case ShapeRule::scores:
        return {repeatable(call_.batch, call_.batch, "sequences"),
                repeatable(call_.heads_q, call_.heads_q, "heads of q"),
                repeatable(call_.max_seqlen_q, std::max(call_.rows_q, args_.max_seqlen_q),
                           "queries of the longest sequence: max_seqlen_q, else all rows of q"),
                repeatable(call_.max_seqlen_k, std::max(call_.rows_k, args_.max_seqlen_k),
                           "keys of the longest sequence: max_seqlen_k, else all rows of k")};
      case ShapeRule::row_mask:
        return {repeatable(call_.batch, call_.batch, "sequences"),
                repeatable(call_.heads_q, call_.heads_q, "heads of q"), exactly(q[1], "queries, as q"), one};
      case ShapeRule::tree_rows:
        return {repeatable(q[0], q[0], "sequences, as q"), repeatable(call_.heads_q, call_.heads_q, "heads of q"),
                exactly(q[1], "queries, as q"), tree_words()};
      case ShapeRule::tree_places:
        return {repeatable(q[0], q[0], "sequences, as q"), exactly(q[1], "queries, as q"), one, one};
      case ShapeRule::heads:
        return {repeatable(call_.batch, call_.batch, "sequences"), exactly(call_.heads_q, "heads of q"), one, one};
      case ShapeRule::new_keys:  // these are fa_append's: append_tensors.cpp
      case ShapeRule::new_values:
      case ShapeRule::new_rope_keys:
      case ShapeRule::new_places:
      case ShapeRule::query_places:
      case ShapeRule::rotary:
      case ShapeRule::as_rotary_cos:
        break;
    }
    __builtin_unreachable();
  }

  /// The first dimension of q.
  Dim batch() const {
    if (args_.cu_seqlens_q) return exactly(1, "cu_seqlens_q packs all sequences into one");
    if (args_.cu_seqlens_k || args_.num_seqs != 0) return exactly(args_.num_seqs, "num_seqs");
    return any("sequences");
  }

  /// The first dimension of k and v.
  Dim batch_k() const {
    if (paged()) return any("pages");
    if (args_.cu_seqlens_k) return exactly(1, "cu_seqlens_k packs all sequences into one");
    if (args_.kv_batch_idx) return any("rows of the cache");
    return exactly(call_.batch, args_.cu_seqlens_q ? "num_seqs" : "sequences of q");
  }

  /// The shape of scales and zeros.
  Shape factors(int64_t dim, const char *as, const char *groups) const {
    const int64_t (&k)[4] = args_.k.shape;
    return {repeatable(k[0], k[0], as), repeatable(k[1], k[1], as), repeatable(k[2], k[2], as), Dim{1, dim, groups}};
  }

  /// The words of a query's row in tree_mask: a bit for each query of the longest sequence.
  Dim tree_words() const {
    const auto words = [](int64_t tokens) { return (tokens + 31) / 32; };
    return {words(call_.max_seqlen_q), std::max<int64_t>(1, words(std::max(call_.rows_q, args_.max_seqlen_q))),
            "words of 32 bits, one for each query of the longest sequence: max_seqlen_q, else all rows of q"};
  }

  Dim rows_k() const { return paged() ? Dim{1, max_length, "rows of a page"} : any("keys"); }

  bool paged() const { return args_.block_table.data != nullptr; }

  /// Values derived from a tensor whose shape is legal.
  [[gnu::always_inline]] bool derive(ShapeRule shape) {
    if (shape == ShapeRule::queries) {
      call_.batch = args_.cu_seqlens_q ? args_.num_seqs : args_.q.shape[0];
      call_.rows_q = args_.q.shape[1];
      call_.heads_q = args_.q.shape[2];
    } else if (shape == ShapeRule::keys) {
      call_.batch_k = args_.k.shape[0];
      call_.heads_kv = args_.k.shape[2];
    } else if (shape == ShapeRule::values) {
      return derive_rows_k() && check_heads(call_) && derive_bounds();
    }
    return true;
  }

  /// The rows of k that a sequence may have, and the number of them that a page holds.
  bool derive_rows_k() {
    call_.rows_k = args_.k.shape[1];
    if (!paged()) return true;
    call_.page_size = args_.k.shape[1];
    call_.rows_k = args_.block_table.shape[1] * call_.page_size;
    return in_range("args.block_table.shape[1] x args.k.shape[1]", call_.rows_k, 0, max_length,
                    "keys of a sequence: pages x rows of a page");
  }

  bool derive_bounds() {
    const bool any = call_.batch > 0;
    const bool fixed_q = any && !args_.cu_seqlens_q && !args_.seqused_q;
    const bool fixed_k = any && !args_.cu_seqlens_k && !args_.seqused_k && !args_.leftpad_k;
    return read_bound({"max_seqlen_q", "q", "seqused_q", args_.max_seqlen_q, call_.rows_q, fixed_q},
                      &call_.max_seqlen_q) &&
           read_bound({"max_seqlen_k", "k", "seqused_k", args_.max_seqlen_k, call_.rows_k, fixed_k},
                      &call_.max_seqlen_k);
  }

  const Attention &a_;
  const Args &args_;
  Purpose purpose_;
  Call &call_;
};

}  // namespace

template <class Args, class Call>
bool read_tensors(const Attention &attention, const Args &args, Purpose purpose, Call *call) {
  if (!check_num_seqs(args)) return false;
  Reader<Args, Call> reader(attention, args, purpose, call);
  constexpr auto &fields = Fields<Call>::tensors;
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return (reader.read(fields[i]) && ...);
  }(std::make_index_sequence<std::size(fields)>());
}

// The operations whose calls are Inputs.
template bool read_tensors(const Attention &, const fa_forward_args &, Purpose, ForwardCall *);
template bool read_tensors(const Attention &, const fa_backward_args &, Purpose, BackwardCall *);

}  // namespace fa::api
