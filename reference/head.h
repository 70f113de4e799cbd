// One head of one sequence of a call, converted once to the type of the computation, and its scores: the source of both
// the oracle's outputs and its gradients.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "reference/call.h"
#include "reference/hadamard.h"
#include "reference/lanes.h"

namespace reference {

/// The rows of one head of a sequence, (count, dim), converted once.
template <class Real, class Read>
std::vector<Real> dense(int64_t count, int64_t dim, Read read) {
  std::vector<Real> values(size_t(count * dim));
  for (int64_t j = 0; j < count; ++j) {
    read(j).copy(values.data() + j * dim, dim);
  }
  return values;
}

/// Summed in plain order.
template <class Real>
Real dot(const Real *a, const Real *b, int64_t n) {
  Real sum = 0;
  for (int64_t d = 0; d < n; ++d) sum += a[d] * b[d];
  return sum;
}

/// Rows, (count, dim), as columns: (dim, count).
template <class Real>
std::vector<Real> columns_of(const std::vector<Real> &rows, int64_t count, int64_t dim) {
  std::vector<Real> columns(rows.size());
  for (int64_t j = 0; j < count; ++j)
    for (int64_t d = 0; d < dim; ++d) columns[size_t(d * count + j)] = rows[size_t(j * dim + d)];
  return columns;
}

/// The products of a row with many, which are given as columns: each is summed in plain order, many at a time.
template <class Real>
std::vector<Real> products(const Real *row, int64_t dim, const std::vector<Real> &columns, int64_t count) {
  using L = Lanes<Real>;
  constexpr int vectors = 6;
  std::vector<Real> sums(size_t(count), 0);
  int64_t j = 0;
  for (; j + vectors * L::count <= count; j += vectors * L::count) {
    typename L::Vector sum[vectors] = {};
    for (int64_t d = 0; d < dim; ++d)
      for (int i = 0; i < vectors; ++i) sum[i] += row[d] * L::at(&columns[size_t(d * count + j + i * L::count)]);
    for (int i = 0; i < vectors; ++i) L::at(&sums[size_t(j + i * L::count)]) = sum[i];
  }
  for (int64_t d = 0; d < dim; ++d)
    for (int64_t left = j; left < count; ++left) sums[size_t(left)] += row[d] * columns[size_t(d * count + left)];
  return sums;
}

/// In double: squares of large numbers are larger.
template <class Real>
double length(const Real *row, int64_t dim) {
  double sum = 0;
  for (int64_t d = 0; d < dim; ++d) sum += double(row[d]) * double(row[d]);
  return std::sqrt(sum);
}

template <class Real>
std::vector<Real> lengths(const std::vector<Real> &rows, int64_t count, int64_t dim) {
  std::vector<Real> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(Real(length(&rows[size_t(i * dim)], dim)));
  return result;
}

/// One head of one sequence. Real is the type that everything is computed in.
template <class Real>
struct Head {
  const Call &call;
  const Sequence &s;
  const Real scale;
  int64_t head = 0;
  std::vector<Real> q, k, v;                       // rows of its queries, keys and values
  std::vector<Real> q_length, k_length, v_length;  // Euclidean

  Head(const Call &c, const Sequence &sequence, int64_t kv) : call(c), s(sequence), scale(Real(c.scale())) {
    k = dense<Real>(s.keys, c.dim(), [&](int64_t j) { return c.k(s, j, kv); });
    v = dense<Real>(s.keys, c.dim_v(), [&](int64_t j) { return c.v(s, j, kv); });
    k_length = lengths(k, s.keys, c.dim());
    v_length = lengths(v, s.keys, c.dim_v());
    k_columns_ = columns_of(k, s.keys, c.dim());
  }

  /// Goes on to a query head, one of those that share the key/value head.
  void turn_to(int64_t query_head) {
    head = query_head;
    q = dense<Real>(s.queries, call.dim(), [&](int64_t i) { return call.q(s, i, head); });
    q_length = lengths(q, s.queries, call.dim());
    const int64_t keys_dim = call.dim() - call.desc.head_dim_rope;
    if (block_of_k_ == 1) return;
    for (int64_t i = 0; i < s.queries; ++i) rotate(&q[size_t(i * call.dim())], keys_dim, block_of_k_);
    if constexpr (std::is_same_v<Real, float>)
      for (Real &x : q) x = round_to(call.q_type(), x);
  }

  /// The products of a query with all keys.
  std::vector<Real> products_of(int64_t i) const {
    return products(q.data() + i * call.dim(), call.dim(), k_columns_, s.keys);
  }

  struct Score {
    Real x;          // of fa.h
    Real magnitude;  // no less than the sum of the absolute values of all that x adds up
    bool attended;   // an attended key's score may be -inf, too
    Real slope = 1;  // of the softcap, at its argument
    Real lost = 0;   // by numbers near 0
  };

  /// The score of query i and key j, whose product is given.
  Score score(int64_t i, int64_t j, Real product) const {
    const Real masked = -std::numeric_limits<Real>::infinity();
    if (!call.attends(s, head, i, j)) return {masked, 0, false};
    const Real bias = Real(call.bias(s, head, i, j));
    if (bias == masked) return {masked, 0, false};
    const Real cap = Real(call.desc.softcap);
    const bool bias_first = call.desc.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP;

    Real x = scale * product;
    if (bias_first) x += bias;
    const Real t = cap > 0 ? std::tanh(x / cap) : 0;
    if (cap > 0) x = cap * t;
    if (!bias_first) x += bias;
    const Real alibi = Real(call.slope(s, head)) * Real(std::abs(call.query_position(s, i) - call.key_position(s, j)));
    const Real q_size = q_length[size_t(i)], k_size = k_length[size_t(j)];
    return {x - alibi, std::abs(scale) * q_size * k_size + std::abs(bias) + std::abs(alibi), true, 1 - t * t,
            std::abs(scale) * (lost(q_size + k_size) + lost_in_rotation(k_size))};
  }

 private:
  /// The error of a rotated query, each of whose elements may be rounded to q's type: near 0 by its smallest number.
  Real lost_in_rotation(Real k_size) const {
    return block_of_k_ == 1 ? 0 : 2 * std::sqrt(Real(call.dim())) * Real(smallest(call.q_type())) * k_size;
  }

  /// The error of a product's small terms: f32's numbers are 2^-149 apart near 0. Where products flush, 2^-126 takes
  /// its place; sizes is the sum of both rows' lengths.
  Real lost(Real sizes) const {
    const Real dim = Real(call.dim());
    const bool flushes =
        products_flush(call.q_type()) && products_flush(call.kv_type()) && products_flush(call.v_type());
    return flushes ? Real(0x1p-126) * (dim + std::sqrt(dim) * sizes) : Real(0x1p-149) * dim;
  }

  std::vector<Real> k_columns_;
  const int64_t block_of_k_ = hadamard_block_of_k(call.desc);
};

}  // namespace reference
