#include "judge/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "judge/head.h"
#include "judge/number.h"

namespace oracle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Result empty_result(const Call &call) {
  Result r;
  r.batch = call.args.out.shape[0];
  r.rows = call.args.out.shape[1];
  r.heads = call.heads();
  r.dim = call.dim_v();
  r.written.assign(size_t(r.batch * r.rows), 0);
  r.lse.assign(size_t(r.batch * r.rows * r.heads), 0);
  r.score = r.keys = r.lse;
  r.out.assign(r.lse.size() * size_t(r.dim), 0);
  r.mean_v = r.largest_v = r.even_v = r.out;
  return r;
}

/// The largest of the scores and the sink, NaN when one of them is.
template <class Real>
Real maximum(const std::vector<Real> &x, Real sink) {
  Real m = sink;
  for (const Real value : x) m = std::isnan(value) || value > m ? value : m;
  return m;
}

/// Query i of a head, as fa.h writes it.
void exact_row(const Head<double> &h, int64_t i, Result *r) {
  const int64_t at = r->head(h.s.q_batch, h.s.q_row + i, h.head);
  double *out = &r->out[size_t(at * r->dim)];
  double *mean_v = &r->mean_v[size_t(at * r->dim)];

  double *largest_v = &r->largest_v[size_t(at * r->dim)];
  double *even_v = &r->even_v[size_t(at * r->dim)];

  std::vector<double> x;
  std::vector<int64_t> attended;
  double largest = 0;
  for (int64_t j = 0; j < h.s.keys; ++j) {
    const auto score = h.score(i, j);
    x.push_back(score.x);
    largest = std::max(largest, score.magnitude);
    if (score.attended) attended.push_back(j);
  }
  r->score[size_t(at)] = largest;
  r->keys[size_t(at)] = double(attended.size());
  const double sink = h.call.sink(h.s, h.head);
  const double m = maximum(x, sink);
  if (m == -infinity) {
    r->lse[size_t(at)] = -infinity;
    return;
  }
  double l = std::exp(sink - m);
  for (const double value : x) l += value == -infinity ? 0 : std::exp(value - m);
  r->lse[size_t(at)] = m + std::log(l);
  if (maximum(x, -infinity) == -infinity) return;  // the sink alone: no key is left

  std::vector<double> special(size_t(r->dim), 0.0);  // the sum of the values that are NaN or infinite
  for (const int64_t j : attended) {
    const double p = std::exp(x[size_t(j)] - m) / l;
    for (int64_t d = 0; d < r->dim; ++d) {
      const double value = h.v[size_t(j * r->dim + d)];
      if (!std::isfinite(value)) {
        special[size_t(d)] += value;
        continue;
      }
      out[d] += p * value;
      mean_v[d] += p * std::abs(value);
      largest_v[d] = std::max(largest_v[d], std::abs(value));
      even_v[d] += std::abs(value) / l;
    }
  }
  for (int64_t d = 0; d < r->dim; ++d)
    if (special[size_t(d)] != 0) out[d] = std::isnan(l) ? l : special[size_t(d)];
}

/// The same in f32 with probabilities of q's type and an output of out's type.
void naive_row(const Head<float> &h, int64_t i, Result *r) {
  const int64_t at = r->head(h.s.q_batch, h.s.q_row + i, h.head);
  const float minus_infinity = -std::numeric_limits<float>::infinity();

  std::vector<float> x;
  for (int64_t j = 0; j < h.s.keys; ++j) x.push_back(h.score(i, j).x);
  const float sink = float(h.call.sink(h.s, h.head));
  const float m = maximum(x, sink);
  if (m == minus_infinity) {
    r->lse[size_t(at)] = -infinity;
    return;
  }
  float l = std::exp(sink - m);
  for (const float value : x) l += value == minus_infinity ? 0 : std::exp(value - m);
  r->lse[size_t(at)] = m + std::log(l);

  std::vector<float> out(size_t(r->dim), 0.0f);
  for (int64_t j = 0; j < h.s.keys; ++j) {
    if (x[size_t(j)] == minus_infinity) continue;
    const float p = test::round_to(h.call.q_type(), std::exp(x[size_t(j)] - m) / l);
    for (int64_t d = 0; d < r->dim; ++d) out[size_t(d)] += p * h.v[size_t(j * r->dim + d)];
  }
  for (int64_t d = 0; d < r->dim; ++d)
    r->out[size_t(at * r->dim + d)] = test::round_to(h.call.out_type(), out[size_t(d)]);
}

template <class Real, class Row>
Result evaluate(const fa_desc &desc, const fa_args &args, Row row) {
  const Call call(desc, args);
  Result r = empty_result(call);
  for (const Sequence &s : call.sequences) {
    for (int64_t i = 0; i < s.queries; ++i) r.written[size_t(r.row(s.q_batch, s.q_row + i))] = 1;
    for (int64_t kv = 0; kv < call.heads_kv() && s.queries > 0; ++kv) {
      Head<Real> head(call, s, kv);
      const int64_t group = call.heads() / call.heads_kv();
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        head.turn_to(h);
        for (int64_t i = 0; i < s.queries; ++i) row(head, i, &r);
      }
    }
  }
  return r;
}

}  // namespace

Result attention(const fa_desc &desc, const fa_args &args) {
  return evaluate<double>(desc, args, exact_row);
}

Result naive(const fa_desc &desc, const fa_args &args) {
  return evaluate<float>(desc, args, naive_row);
}

}  // namespace oracle
