// One fa_forward call resolved into sequences, as fa.h defines them: which rows of which tensor each consists of, and
// the positions of its queries among its keys. Reads the public structures and nothing of the library.
#pragma once

#include <fa.h>

#include <cstdint>
#include <vector>

#include "reference/codes.h"
#include "reference/number.h"

namespace reference {

/// A row of a tensor: the elements of its last dimension.
class Elements {
 public:
  Elements(const void *first, int64_t bytes_apart, fa_dtype dtype)
      : first_(static_cast<const char *>(first)), bytes_apart_(bytes_apart), dtype_(dtype) {}
  double operator[](int64_t d) const {
    if (tail.first && d >= tail.from)
      return reference::load(tail.first + (d - tail.from) * tail.bytes_apart, tail.dtype);
    return scaled(code(d), d);
  }

  /// Copies the first n elements.
  template <class Real>
  void copy(Real *to, int64_t n) const {
    if (tail.first || scale.first || zero.first || codes_of(dtype_)) {
      for (int64_t d = 0; d < n; ++d) to[d] = Real((*this)[d]);
    } else {
      load_each(first_, bytes_apart_, dtype_, n, to);
    }
  }

  /// The elements from `from` on, of keys in two parts.
  struct Tail {
    const char *first = nullptr;
    int64_t bytes_apart = 0;
    fa_dtype dtype = FA_F32;
    int64_t from = 0;
  };
  Tail tail;

  /// The scales or zeros of a row; each belongs to `channels` consecutive elements.
  struct Factors {
    const char *first = nullptr;  // absent
    int64_t bytes_apart = 0;
    fa_dtype dtype = FA_F32;
    int64_t channels = 1;

    double of(int64_t d, double absent) const {
      if (!first) return absent;
      const double x = reference::load(first + d / channels * bytes_apart, dtype);
      return std::isfinite(x) ? x : NAN;
    }
  };
  Factors scale, zero;

 private:
  double code(int64_t d) const {
    if (!codes_of(dtype_)) return reference::load(first_ + d * bytes_apart_, dtype_);
    if (unit_elements(dtype_) > 1) return load_code(first_, dtype_, d);
    return load_code(first_ + d * bytes_apart_, dtype_, 0);
  }

  double scaled(double code, int64_t d) const {
    return scale.first || zero.first ? (code - zero.of(d, 0)) * scale.of(d, 1) : code;
  }

  const char *first_;
  int64_t bytes_apart_;
  fa_dtype dtype_;
};

/// One sequence of a call.
struct Sequence {
  int64_t index;    // b: its place in bias, mask, slopes, sinks and in the arrays
  int64_t queries;  // used ones
  int64_t keys;     // used ones, left padding not counted
  int64_t offset;   // o: the position of query 0 among the keys
  int64_t q_batch;  // of its query 0 in q and out
  int64_t q_row;
  int64_t k_batch;  // of its key 0 in k and v; paged: k_row is the token, and the page is looked up
  int64_t k_row;
};

class Call {
 public:
  /// Both must be legal for fa_forward. The structures and their tensors must outlive the call.
  Call(const fa_desc &desc, const fa_forward_args &args);

  const fa_desc &desc;
  const fa_forward_args &args;
  std::vector<Sequence> sequences;

  fa_dtype q_type() const { return desc.dtype_q; }
  fa_dtype kv_type() const { return desc.dtype_kv ? desc.dtype_kv : desc.dtype_q; }
  fa_dtype k_rope_type() const { return desc.dtype_k_rope ? desc.dtype_k_rope : desc.dtype_q; }
  fa_dtype v_type() const { return desc.dtype_v ? desc.dtype_v : kv_type(); }
  fa_dtype out_type() const { return desc.dtype_out ? desc.dtype_out : desc.dtype_q; }
  int64_t dim() const { return desc.head_dim; }
  int64_t dim_v() const { return desc.head_dim_v ? desc.head_dim_v : desc.head_dim; }
  int64_t heads() const { return args.q.shape[2]; }
  int64_t heads_kv() const { return args.k.shape[2]; }
  double scale() const;

  /// Rows of sequence s: query i or key j of a head. Heads of k and v are key/value heads.
  Elements q(const Sequence &s, int64_t i, int64_t head) const;
  Elements k(const Sequence &s, int64_t j, int64_t head) const;
  Elements v(const Sequence &s, int64_t j, int64_t head) const;

  /// The addend of score (i, j), 0 without a bias.
  double bias(const Sequence &s, int64_t head, int64_t i, int64_t j) const;
  /// The ALiBi slope of a head, 0 without.
  double slope(const Sequence &s, int64_t head) const;
  /// The sink of a head, -inf without.
  double sink(const Sequence &s, int64_t head) const;
  /// Where a query, or a key, is for windows, chunks and ALiBi.
  int64_t query_position(const Sequence &s, int64_t i) const;
  int64_t key_position(const Sequence &s, int64_t j) const;
  /// Whether query i attends key j by mask kind or tree, window, chunk and mask tensor.
  bool attends(const Sequence &s, int64_t head, int64_t i, int64_t j) const;

 private:
  struct CacheRow {
    int64_t batch, row;
  };
  CacheRow cache_row(const Sequence &s, int64_t j) const;
  Elements kv_row(const fa_tensor &tensor, fa_dtype dtype, const fa_tensor &scale, const fa_tensor &zero,
                  const Sequence &s, int64_t j, int64_t head) const;
  int64_t depth(const Sequence &s, int64_t token) const;
  bool in_tree(const Sequence &s, int64_t head, int64_t i, int64_t j) const;
};

}  // namespace reference
