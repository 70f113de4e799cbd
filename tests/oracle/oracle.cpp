#include "oracle/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/call.h"
#include "support/number.h"

namespace oracle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The keys or values of one head of a sequence, (keys, dim), converted once.
template <class Real, class Read>
std::vector<Real> dense(int64_t count, int64_t dim, Read read) {
  std::vector<Real> values;
  values.reserve(size_t(count * dim));
  for (int64_t j = 0; j < count; ++j)
    for (int64_t d = 0; d < dim; ++d) values.push_back(Real(read(j, d)));
  return values;
}

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
  r.mean_v = r.out;
  return r;
}

/// One head of one sequence. Real is the type that everything is computed in.
template <class Real>
struct Head {
  const Call &call;
  const Sequence &s;
  int64_t head;
  std::vector<Real> q, k, v;

  Head(const Call &c, const Sequence &sequence, int64_t h) : call(c), s(sequence), head(h) {
    const int64_t kv = h / (c.heads() / c.heads_kv());
    q = dense<Real>(s.queries, c.dim(), [&](int64_t i, int64_t d) { return c.q(s, i, h, d); });
    k = dense<Real>(s.keys, c.dim(), [&](int64_t j, int64_t d) { return c.k(s, j, kv, d); });
    v = dense<Real>(s.keys, c.dim_v(), [&](int64_t j, int64_t d) { return c.v(s, j, kv, d); });
  }

  struct Score {
    Real x;          // of fa.h
    Real magnitude;  // the sum of the absolute values of all that x adds up
  };

  Score score(int64_t i, int64_t j) const {
    const Real masked = -Real(infinity);
    if (!call.attends(s, head, i, j)) return {masked, 0};
    const Real bias = Real(call.bias(s, head, i, j));
    if (bias == masked) return {masked, 0};
    const Real cap = Real(call.desc.softcap), scale = Real(call.scale());
    const bool bias_first = call.desc.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP;
    const Real *qi = &q[size_t(i * call.dim())], *kj = &k[size_t(j * call.dim())];

    Real x = 0, magnitude = 0;
    for (int64_t d = 0; d < call.dim(); ++d) {
      x += qi[d] * kj[d];
      magnitude += std::abs(qi[d] * kj[d]);
    }
    x = scale * x;
    if (bias_first) x += bias;
    if (cap > 0) x = cap * std::tanh(x / cap);
    if (!bias_first) x += bias;
    const Real alibi = Real(call.slope(s, head)) * Real(std::abs(i + s.offset - j));
    return {x - alibi, std::abs(scale) * magnitude + std::abs(bias) + std::abs(alibi)};
  }
};

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

  std::vector<double> x;
  double largest = 0, attended = 0;
  for (int64_t j = 0; j < h.s.keys; ++j) {
    const auto score = h.score(i, j);
    x.push_back(score.x);
    largest = std::max(largest, score.magnitude);
    attended += score.x != -infinity;
  }
  r->score[size_t(at)] = largest;
  r->keys[size_t(at)] = attended;
  const double sink = h.call.sink(h.s, h.head);
  const double m = maximum(x, sink);
  if (m == -infinity) {
    r->lse[size_t(at)] = -infinity;
    return;
  }
  double l = std::exp(sink - m);
  for (const double value : x) l += value == -infinity ? 0 : std::exp(value - m);
  r->lse[size_t(at)] = m + std::log(l);

  for (int64_t j = 0; j < h.s.keys; ++j) {
    if (x[size_t(j)] == -infinity) continue;  // weight exactly zero: neither key nor value is looked at
    const double p = std::exp(x[size_t(j)] - m) / l;
    for (int64_t d = 0; d < r->dim; ++d) {
      const double value = h.v[size_t(j * r->dim + d)];
      out[d] += p * value;
      mean_v[d] += p * std::abs(value);
    }
  }
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
    for (int64_t h = 0; h < call.heads() && s.queries > 0; ++h) {
      const Head<Real> head(call, s, h);
      for (int64_t i = 0; i < s.queries; ++i) row(head, i, &r);
    }
  }
  return r;
}

}  // namespace

Result attention(const fa_desc &desc, const fa_args &args) { return evaluate<double>(desc, args, exact_row); }

Result naive(const fa_desc &desc, const fa_args &args) { return evaluate<float>(desc, args, naive_row); }

}  // namespace oracle
