#include "reference/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/hadamard.h"
#include "reference/head.h"
#include "reference/lanes.h"
#include "reference/number.h"

namespace reference {
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
  r.score = r.lost = r.keys = r.lse;
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

/// The sums of a row, for each column of the values.
struct Sums {
  double *out, *mean_v, *largest_v, *even_v;
};

/// Adds n finite values with the weight p, the largest one's being 1 / l.
void add_values(const double *values, int64_t n, double p, double l, const Sums &sums) {
  double *__restrict out = sums.out, *__restrict mean_v = sums.mean_v;
  double *__restrict largest_v = sums.largest_v, *__restrict even_v = sums.even_v;
  const double largest = 1 / l;
  for (int64_t d = 0; d < n; ++d) {
    const double size = std::abs(values[d]);
    out[d] += p * values[d];
    mean_v[d] += p * size;
    largest_v[d] = size > largest_v[d] ? size : largest_v[d];
    even_v[d] += size * largest;
  }
}

/// The keys that a row attends, with the weight of each.
template <class Real>
struct Weights {
  std::vector<int64_t> keys;
  std::vector<Real> p;
};

/// The same of finite values of all keys. Whatever columns are left go one by one.
void add_values(const double *values, int64_t n, const Weights<double> &weights, double l, const Sums &sums) {
  using L = Lanes<double>;
  using Bits = int64_t __attribute__((vector_size(16)));
  constexpr int vectors = 2;
  const double largest = 1 / l;
  int64_t d = 0;
  for (; d + vectors * L::count <= n; d += vectors * L::count) {
    L::Vector out[vectors], mean_v[vectors], largest_v[vectors], even_v[vectors];
    for (int i = 0; i < vectors; ++i) {
      const int64_t at = d + i * L::count;
      out[i] = L::at(sums.out + at), mean_v[i] = L::at(sums.mean_v + at);
      largest_v[i] = L::at(sums.largest_v + at), even_v[i] = L::at(sums.even_v + at);
    }
    for (size_t a = 0; a < weights.keys.size(); ++a) {
      const double *const row = values + weights.keys[a] * n + d, p = weights.p[a];
      for (int i = 0; i < vectors; ++i) {
        const L::Vector value = L::at(row + i * L::count), size = L::Vector(Bits(value) & INT64_MAX);
        out[i] += p * value;
        mean_v[i] += p * size;
        largest_v[i] = size > largest_v[i] ? size : largest_v[i];
        even_v[i] += size * largest;
      }
    }
    for (int i = 0; i < vectors; ++i) {
      const int64_t at = d + i * L::count;
      L::at(sums.out + at) = out[i], L::at(sums.mean_v + at) = mean_v[i];
      L::at(sums.largest_v + at) = largest_v[i], L::at(sums.even_v + at) = even_v[i];
    }
  }
  for (size_t a = 0; a < weights.keys.size() && d < n; ++a)
    add_values(values + weights.keys[a] * n + d, n - d, weights.p[a], l,
               {sums.out + d, sums.mean_v + d, sums.largest_v + d, sums.even_v + d});
}

/// The same where some values are NaN or infinite.
void add_special_values(const Head<double> &h, const Weights<double> &weights, double l, const Sums &sums) {
  const int64_t n = h.call.dim_v();
  std::vector<double> special(size_t(n), 0.0);  // the sum of those
  for (size_t a = 0; a < weights.keys.size(); ++a) {
    const int64_t j = weights.keys[a];
    const double p = weights.p[a], *values = h.v.data() + j * n;
    if (std::isfinite(h.v_length[size_t(j)])) {
      add_values(values, n, p, l, sums);
      continue;
    }
    for (int64_t d = 0; d < n; ++d) {
      if (std::isfinite(values[d])) {
        add_values(values + d, 1, p, l, {sums.out + d, sums.mean_v + d, sums.largest_v + d, sums.even_v + d});
      } else {
        special[size_t(d)] += values[d];
      }
    }
  }
  for (int64_t d = 0; d < n; ++d)
    if (special[size_t(d)] != 0) sums.out[d] = std::isnan(l) ? l : special[size_t(d)];
}

/// Query i of a head, as fa.h writes it.
void exact_row(const Head<double> &h, int64_t i, Result *r) {
  const int64_t at = r->head(h.s.q_batch, h.s.q_row + i, h.head), n = r->dim;
  const auto row = [&](std::vector<double> *all) { return all->data() + at * n; };
  const Sums sums{row(&r->out), row(&r->mean_v), row(&r->largest_v), row(&r->even_v)};

  std::vector<double> x = h.products_of(i);
  Weights<double> attended;
  double largest = 0, lost = 0;
  bool finite = true;  // all values that are attended
  for (int64_t j = 0; j < h.s.keys; ++j) {
    const auto score = h.score(i, j, x[size_t(j)]);
    x[size_t(j)] = score.x;
    largest = std::max(largest, score.magnitude);
    lost = std::max(lost, score.lost);
    if (!score.attended) continue;
    attended.keys.push_back(j);
    finite = finite && std::isfinite(h.v_length[size_t(j)]);
  }
  r->score[size_t(at)] = largest;
  r->lost[size_t(at)] = lost;
  r->keys[size_t(at)] = double(attended.keys.size());
  const double sink = h.call.sink(h.s, h.head);
  const double m = maximum(x, sink);
  if (m == -infinity) {
    r->lse[size_t(at)] = -infinity;
    return;
  }
  double l = std::exp(sink - m);
  const bool keys_are_left = maximum(x, -infinity) != -infinity;  // not the sink alone
  for (double &value : x) {
    value = value == -infinity ? 0 : std::exp(value - m);
    l += value;
  }
  r->lse[size_t(at)] = m + std::log(l);
  if (!keys_are_left) return;

  for (const int64_t j : attended.keys) attended.p.push_back(x[size_t(j)] / l);
  if (finite) {
    add_values(h.v.data(), n, attended, l, sums);
  } else {
    add_special_values(h, attended, l, sums);
  }
  const int64_t block = hadamard_block_of_v(h.call.desc);
  rotate(sums.out, n, block);
  for (double *sizes : {sums.mean_v, sums.largest_v, sums.even_v}) rotate(sizes, n, block, true);
}

/// The same in f32 with probabilities, and rotated queries, of q's type and an output of out's type.
void naive_row(const Head<float> &h, int64_t i, Result *r) {
  const int64_t at = r->head(h.s.q_batch, h.s.q_row + i, h.head);
  const float minus_infinity = -std::numeric_limits<float>::infinity();

  std::vector<float> x = h.products_of(i);
  for (int64_t j = 0; j < h.s.keys; ++j) x[size_t(j)] = h.score(i, j, x[size_t(j)]).x;
  const float sink = float(h.call.sink(h.s, h.head));
  const float m = maximum(x, sink);
  if (m == minus_infinity) {
    r->lse[size_t(at)] = -infinity;
    return;
  }
  float l = std::exp(sink - m);
  std::vector<float> weights;
  for (const float value : x) {
    weights.push_back(value == minus_infinity ? 0 : std::exp(value - m));
    l += weights.back();
  }
  r->lse[size_t(at)] = m + std::log(l);

  Weights<float> attended;
  for (int64_t j = 0; j < h.s.keys; ++j) {
    if (x[size_t(j)] == minus_infinity) continue;
    attended.keys.push_back(j);
    attended.p.push_back(round_to(h.call.q_type(), weights[size_t(j)] / l));
  }
  using L = Lanes<float>;
  std::vector<float> out(size_t(r->dim), 0.0f);
  constexpr int vectors = 4;
  int64_t d = 0;
  for (; d + vectors * L::count <= r->dim; d += vectors * L::count) {
    L::Vector sum[vectors] = {};
    for (size_t a = 0; a < attended.keys.size(); ++a) {
      const float *const row = h.v.data() + attended.keys[a] * r->dim + d, p = attended.p[a];
      for (int v = 0; v < vectors; ++v) sum[v] += p * L::at(row + v * L::count);
    }
    for (int v = 0; v < vectors; ++v) L::at(&out[size_t(d + v * L::count)]) = sum[v];
  }
  for (; d < r->dim; ++d)
    for (size_t a = 0; a < attended.keys.size(); ++a)
      out[size_t(d)] += attended.p[a] * h.v[size_t(attended.keys[a] * r->dim + d)];
  rotate(out.data(), r->dim, hadamard_block_of_v(h.call.desc));
  for (d = 0; d < r->dim; ++d) r->out[size_t(at * r->dim + d)] = round_to(h.call.out_type(), out[size_t(d)]);
}

template <class Real, class EachRow>
Result evaluate(const fa_desc &desc, const fa_forward_args &args, EachRow row) {
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

Result attention(const fa_desc &desc, const fa_forward_args &args) {
  return evaluate<double>(desc, args, exact_row);
}

Result naive(const fa_desc &desc, const fa_forward_args &args) {
  return evaluate<float>(desc, args, naive_row);
}

}  // namespace reference
