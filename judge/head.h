// One head of one sequence of a call, converted once to the type that is computed in, and its scores: what the oracle's
// outputs and gradients are both made of.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "judge/call.h"

namespace oracle {

/// The keys or values of one head of a sequence, (keys, dim), converted once.
template <class Real, class Read>
std::vector<Real> dense(int64_t count, int64_t dim, Read read) {
  std::vector<Real> values;
  values.reserve(size_t(count * dim));
  for (int64_t j = 0; j < count; ++j)
    for (int64_t d = 0; d < dim; ++d) values.push_back(Real(read(j, d)));
  return values;
}

/// Summed in plain order.
inline float dot(const float *a, const float *b, int64_t n) {
  float sum = 0;
  for (int64_t d = 0; d < n; ++d) sum += a[d] * b[d];
  return sum;
}

/// In four sums, for speed alone.
inline double dot(const double *a, const double *b, int64_t n) {
  double sum[4] = {};
  int64_t d = 0;
  for (; d + 4 <= n; d += 4)
    for (int64_t part = 0; part < 4; ++part) sum[part] += a[d + part] * b[d + part];
  for (; d < n; ++d) sum[0] += a[d] * b[d];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <class Real>
std::vector<Real> lengths(const std::vector<Real> &rows, int64_t count, int64_t dim) {
  std::vector<Real> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(std::sqrt(dot(&rows[size_t(i * dim)], &rows[size_t(i * dim)], dim)));
  return result;
}

/// One head of one sequence. Real is the type that everything is computed in.
template <class Real>
struct Head {
  const Call &call;
  const Sequence &s;
  int64_t head = 0;
  std::vector<Real> q, k, v;             // rows of its queries, keys and values
  std::vector<Real> q_length, k_length;  // Euclidean

  Head(const Call &c, const Sequence &sequence, int64_t kv) : call(c), s(sequence) {
    k = dense<Real>(s.keys, c.dim(), [&](int64_t j, int64_t d) { return c.k(s, j, kv, d); });
    v = dense<Real>(s.keys, c.dim_v(), [&](int64_t j, int64_t d) { return c.v(s, j, kv, d); });
    k_length = lengths(k, s.keys, c.dim());
  }

  /// Goes on to a query head, one of those that share the key/value head.
  void turn_to(int64_t query_head) {
    head = query_head;
    q = dense<Real>(s.queries, call.dim(), [&](int64_t i, int64_t d) { return call.q(s, i, head, d); });
    q_length = lengths(q, s.queries, call.dim());
  }

  struct Score {
    Real x;          // of fa.h
    Real magnitude;  // no less than the sum of the absolute values of all that x adds up
    bool attended;   // an attended key's score may be -inf, too
    Real slope = 1;  // of the softcap, at what it is given
  };

  Score score(int64_t i, int64_t j) const {
    const Real masked = -std::numeric_limits<Real>::infinity();
    if (!call.attends(s, head, i, j)) return {masked, 0, false};
    const Real bias = Real(call.bias(s, head, i, j));
    if (bias == masked) return {masked, 0, false};
    const Real cap = Real(call.desc.softcap), scale = Real(call.scale());
    const bool bias_first = call.desc.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP;
    const Real *qi = &q[size_t(i * call.dim())], *kj = &k[size_t(j * call.dim())];

    Real x = scale * dot(qi, kj, call.dim());
    if (bias_first) x += bias;
    const Real t = cap > 0 ? std::tanh(x / cap) : 0;
    if (cap > 0) x = cap * t;
    if (!bias_first) x += bias;
    const Real alibi = Real(call.slope(s, head)) * Real(std::abs(i + s.offset - j));
    return {x - alibi, std::abs(scale) * q_length[size_t(i)] * k_length[size_t(j)] + std::abs(bias) + std::abs(alibi),
            true, 1 - t * t};
  }
};

}  // namespace oracle
