#include "reference/gradients.h"

#include <algorithm>
#include <cfloat>
#include <type_traits>

#include "reference/gradient_terms.h"
#include "reference/head.h"
#include "reference/number.h"
#include "schema/fields.def"

namespace reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double u32 = 0x1p-24;

fa_dtype type_of(const fa_tensor &t, fa_dtype usual) {
  return t.dtype ? t.dtype : usual;
}

double read(const fa_tensor &t, fa_dtype usual, int64_t i, int64_t j, int64_t k, int64_t l) {
  const fa_dtype dtype = type_of(t, usual);
  const int64_t offset = i * t.stride[0] + j * t.stride[1] + k * t.stride[2] + l * t.stride[3];
  return load(static_cast<const char *>(t.data) + offset * dtype_bytes(dtype), dtype);
}

Gradient empty_gradient(const fa_tensor &t) {
  Gradient g;
  if (!t.data) return g;
  std::copy(std::begin(t.shape), std::end(t.shape), g.shape.begin());
  g.written.assign(size_t(t.shape[0] * t.shape[1]), 0);
  g.value.assign(size_t(t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3]), 0);
  g.bound = g.floor = g.largest = g.lengths = g.value;
  g.reached.assign(g.value.size(), 0);
  return g;
}

/// The gradients that a sequence's head has a part in.
template <class Real>
class Pass {
 public:
  Pass(const Call &call, const fa_backward_args &args, const Result *forward, Gradients *g)
      : call_(call), args_(args), forward_(forward), g_(*g) {}

  void run(const Sequence &s) {
    mark_rows(s);
    const int64_t group = call_.heads_kv() ? call_.heads() / call_.heads_kv() : 0;
    for (int64_t kv = 0; kv < call_.heads_kv() && s.queries > 0; ++kv) {
      Head<Real> head(call_, s, kv);
      kv_ = kv;
      v_columns_ = columns_of(head.v, s.keys, call_.dim_v());
      longest_v_ = 0;
      for (const Real v : head.v_length)  // one that is not finite and is attended makes out NaN, and no pair is judged
        if (std::isfinite(v)) longest_v_ = std::max(longest_v_, double(v));
      terms_k_ = double(group * s.queries);
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        head.turn_to(h);
        for (int64_t i = 0; i < s.queries; ++i) row(head, i);
      }
    }
  }

 private:
  /// The state of a row.
  struct Row {
    int64_t i = 0;
    double lse = 0, delta = 0, dlse = 0;
    double length = 0, out_length = 0;    // of dout and, where it is read, of out
    double lse_error = 0, out_error = 0;  // of the forward pass, the latter as a length
    std::vector<Real> dout;
    std::vector<Real> operand;  // dout as it meets values and weights: naively, of q's type
  };

  void mark_rows(const Sequence &s) {
    for (int64_t i = 0; g_.dq && i < s.queries; ++i)
      g_.dq.written[size_t(s.q_batch * g_.dq.shape[1] + s.q_row + i)] = 1;
    for (Gradient *g : {&g_.dk, &g_.dv})
      for (int64_t j = 0; *g && j < s.keys; ++j) g->written[size_t(s.k_batch * g->shape[1] + s.k_row + j)] = 1;
  }

  Row read_row(const Head<Real> &h, int64_t i) const {
    const int64_t b = h.s.q_batch, r = h.s.q_row + i;
    const int64_t at = forward_ ? forward_->head(b, r, h.head) : 0;
    Row row;
    row.i = i;
    row.lse = forward_ ? forward_->lse[size_t(at)] : read(args_.lse, FA_F32, b, h.head, r, 0);
    if (row.lse == -infinity) return row;
    if (args_.dlse.data) row.dlse = read(args_.dlse, FA_F32, b, h.head, r, 0);
    std::vector<Real> out;
    for (int64_t d = 0; d < call_.dim_v(); ++d) {
      row.dout.push_back(Real(read(args_.dout, call_.out_type(), b, r, h.head, d)));
      if (!args_.delta.data)
        out.push_back(Real(forward_ ? forward_->out[size_t(at * forward_->dim + d)]
                                    : read(args_.out, call_.out_type(), b, r, h.head, d)));
    }
    row.operand = row.dout;
    if constexpr (std::is_same_v<Real, float>)
      for (float &x : row.operand) x = operand_of(call_.q_type(), x);
    row.length = length(row.dout.data(), call_.dim_v());
    if (args_.delta.data) {
      row.delta = read(args_.delta, FA_F32, b, h.head, r, 0);
    } else {
      row.delta = dot(row.dout.data(), out.data(), call_.dim_v());
      row.out_length = length(out.data(), call_.dim_v());
    }
    if constexpr (std::is_same_v<Real, double>)
      if (forward_) add_forward_errors(at, &row);
    return row;
  }

  /// The bounds of lse and out, over the row's largest score.
  void add_forward_errors(int64_t at, Row *row) const {
    const double rounded = rounding_of_q(), keys = forward_->keys[size_t(at)];
    const double e = (double(call_.dim()) + 16) * u32 * forward_->score[size_t(at)] + forward_->lost[size_t(at)] +
                     8 * u32 * double(call_.desc.softcap);
    row->lse_error = e + (keys + 32) * u32 + rounded / 16;
    row->out_error = (std::expm1(2 * std::min(e, 0.5)) + (keys + 32) * u32 + 3 * rounded) * longest_v_ +
                     unit_roundoff(call_.out_type()) * row->out_length;
  }

  /// The error of delta, whose products are summed in f32.
  double delta_error(const Row &r) const {
    return (double(call_.dim_v()) + 16) * u32 * r.length * r.out_length +
           4 * u32 * (std::abs(r.delta) + std::abs(r.dlse)) + r.length * r.out_error;
  }

  void row(const Head<Real> &h, int64_t i) {
    const Row r = read_row(h, i);
    if (r.lse == -infinity) return;
    if (g_.dsinks) add_sink(h, r);
    const std::vector<Real> qk = h.products_of(i);
    const std::vector<Real> of_weights = products(r.operand.data(), call_.dim_v(), v_columns_, h.s.keys);
    for (int64_t j = 0; j < h.s.keys; ++j) {
      const auto score = h.score(i, j, qk[size_t(j)]);
      if (score.attended && score.x != -Real(infinity)) add_pair(h, r, j, score, of_weights[size_t(j)]);
    }
  }

  void add_sink(const Head<Real> &h, const Row &r) {
    const double sink = call_.sink(h.s, h.head), weight = Real(std::exp(Real(sink) - Real(r.lse)));
    const double value = weight * Real(Real(r.dlse) - Real(r.delta));
    const double error = std::abs(value) * (2 * u32 * (std::abs(sink) + std::abs(r.lse)) + (count_sinks() + 32) * u32) +
                         weight * delta_error(r);
    const int64_t at = repeated(g_.dsinks, h.s.index, h.head, 0, 0);
    add<Real>(&g_.dsinks, at, {value, error, std::abs(value) * 8 * u32});
    mark_reached(&g_.dsinks, at, value);
  }

  double count_sinks() const { return double(args_.q.shape[0] * args_.q.shape[1]); }

  /// of_p: the gradient of the weight.
  void add_pair(const Head<Real> &h, const Row &r, int64_t j, const typename Head<Real>::Score &score, Real of_p) {
    const int64_t dim = call_.dim(), dim_v = call_.dim_v();
    const Real p = std::exp(score.x - Real(r.lse));
    const Real g = of_p - Real(r.delta) + Real(r.dlse);
    const Real dx = p * g, dy = dx * score.slope;
    const fa_dtype type = call_.q_type();
    Term weight{p, 0, 0}, of_x{dx, 0, 0}, of_y{dy, 0, 0};
    if (!is_finite(h, r, j, p, g)) {
      if constexpr (std::is_same_v<Real, double>) mark_pair(h, r, j, p, dx, dy);
      weight.value = of_x.value = of_y.value = std::numeric_limits<double>::quiet_NaN();
    } else if constexpr (std::is_same_v<Real, double>) {
      errors(r, score, p, of_p, g, double(h.v_length[size_t(j)]), &weight, &of_x, &of_y);
    } else {
      weight.value = operand_of(type, p);
      of_y.value = operand_of(type, dy);
    }
    const bool before = call_.desc.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP;
    const auto with_terms = [](Term t, double n) {
      return Term{t.value, t.error + n * u32 * std::abs(t.value), t.rounding};
    };
    const Term over_q = with_terms(of_y, double(h.s.keys)), over_k = with_terms(of_y, terms_k_);
    const int64_t q_row = h.s.q_row + r.i, k_row = h.s.k_row + j;
    if (g_.dq) add(&g_.dq, g_.dq.at(h.s.q_batch, q_row, h.head, 0), over_q, h.scale, h.k.data() + j * dim, dim);
    if (g_.dk) add(&g_.dk, g_.dk.at(h.s.k_batch, k_row, kv_, 0), over_k, h.scale, h.q.data() + r.i * dim, dim);
    if (g_.dv)
      add(&g_.dv, g_.dv.at(h.s.k_batch, k_row, kv_, 0), with_terms(weight, terms_k_), Real(1), r.operand.data(), dim_v);
    if (g_.dbias)
      add<Real>(&g_.dbias, repeated(g_.dbias, h.s.index, h.head, r.i, j),
                with_terms(before ? of_y : of_x, terms_bias(h.s)));
  }

  /// The gradients that a pair with something not finite has a part in, where the formulas give no finite number.
  void mark_pair(const Head<Real> &h, const Row &r, int64_t j, Real p, Real dx, Real dy) {
    const int64_t dim = call_.dim(), q_row = h.s.q_row + r.i, k_row = h.s.k_row + j;
    const bool before = call_.desc.flags & FA_FLAG_BIAS_BEFORE_SOFTCAP;
    const Real term = dy * h.scale;
    if (g_.dq) mark_reached(&g_.dq, g_.dq.at(h.s.q_batch, q_row, h.head, 0), term, h.k.data() + j * dim, dim);
    if (g_.dk) mark_reached(&g_.dk, g_.dk.at(h.s.k_batch, k_row, kv_, 0), term, h.q.data() + r.i * dim, dim);
    if (g_.dv) mark_reached(&g_.dv, g_.dv.at(h.s.k_batch, k_row, kv_, 0), p, r.dout.data(), call_.dim_v());
    if (g_.dbias) mark_reached(&g_.dbias, repeated(g_.dbias, h.s.index, h.head, r.i, j), before ? dy : dx);
  }

  /// Whether all that a pair is made of is, and each step of f32. Where one is not, all its gradients may be anything.
  bool is_finite(const Head<Real> &h, const Row &r, int64_t j, double p, double g) const {
    const double v_length = h.v_length[size_t(j)];
    return std::isfinite(double(h.q_length[size_t(r.i)]) + double(h.k_length[size_t(j)]) + r.lse + r.delta + r.dlse) &&
           r.length * v_length < FLT_MAX && r.length * r.out_length < FLT_MAX && p < FLT_MAX &&
           std::abs(p * g) < FLT_MAX;
  }

  /// How many scores an element of dbias is the sum of, at most.
  double terms_bias(const Sequence &s) const {
    const int64_t all[] = {int64_t(call_.sequences.size()), call_.heads(), s.queries, s.keys};
    double terms = 1;
    for (size_t i = 0; i < 4; ++i) terms *= g_.dbias.shape[i] == 1 ? double(all[i]) : 1.0;
    return terms;
  }

  /// The rounding of dout to q's type, where dout is more exact.
  double dout_rounding(double rounded) const {
    return unit_roundoff(type_of(args_.dout, call_.out_type())) < rounded ? rounded : 0;
  }

  /// docs/precision.md, "Gradients".
  void errors(const Row &r, const typename Head<Real>::Score &score, double p, double of_p, double g, double v_length,
              Term *weight, Term *of_x, Term *of_y) const {
    const fa_dtype type = call_.q_type();
    const double rounded = rounding_of_q();
    const double cap = call_.desc.softcap;
    const double of_score = (double(call_.dim()) + 16) * u32 * score.magnitude + score.lost;
    const double e = of_score + 8 * u32 * cap + 2 * u32 * (std::abs(score.x) + std::abs(r.lse)) + r.lse_error;
    const double most = std::exp(std::min(double(score.x) - r.lse + e, 600.0));  // that p may become
    const double of_weight = most - p + most * (32 * u32 + rounded / 16);
    const double of_g = dout_rounding(rounded) * r.length * v_length +
                        (double(call_.dim_v()) + 16) * u32 * r.length * v_length + 4 * u32 * std::abs(of_p) +
                        lost_of_g(r, v_length) + delta_error(r);
    const double underflow = 0x1p-124 * (1 + std::abs(g));
    weight->error = of_weight + most * (rounded + dout_rounding(rounded)) + 0x1p-124;
    weight->rounding = p * (unit_roundoff(type) + 4 * u32 + score_rounding(r, score));
    of_x->error = (of_weight + most * rounded) * std::abs(g) + (most + of_weight) * of_g + underflow;
    of_x->rounding = weight->rounding * std::abs(g) + p * (of_g - r.length * r.out_error);
    const double of_slope = cap > 0 ? 16 * u32 + 2 * of_score / cap : 0;
    of_y->error = of_x->error * std::abs(score.slope) + (p * std::abs(g) + of_x->error) * of_slope;
    of_y->rounding = of_x->rounding * std::abs(score.slope) + (p * std::abs(g) + of_x->rounding) * 16 * u32;
  }

  /// One rounding of a score and of the lse: of the largest numbers in their sums, or, where forward and backward pass
  /// have the same ones, of their values.
  double score_rounding(const Row &r, const typename Head<Real>::Score &score) const {
    if (forward_) return u32 * (std::abs(score.x) + std::abs(r.lse)) + std::min(score.lost, 1.0);
    return 4 * u32 * std::max(double(score.magnitude), std::abs(r.lse)) + std::min(score.lost, 1.0);
  }

  /// By numbers near 0, as Head has it for scores.
  double lost_of_g(const Row &r, double v_length) const {
    const double dim = double(call_.dim_v());
    if (!products_flush(call_.q_type())) return 0x1p-149 * dim;
    return 0x1p-126 * (dim + std::sqrt(dim) * (r.length + v_length));
  }

  double rounding_of_q() const { return operand_roundoff(call_.q_type()); }

  const Call &call_;
  const fa_backward_args &args_;
  const Result *forward_;
  Gradients &g_;
  int64_t kv_ = 0;
  double longest_v_ = 0;
  std::vector<Real> v_columns_;
  double terms_k_ = 0;  // of a key's sums
};

template <class Real>
Gradients evaluate(const fa_desc &desc, const fa_backward_args &args, const Result *forward) {
  const fa_forward_args inputs = forward_args(args);
  const Call call(desc, inputs);
  Gradients g{empty_gradient(args.dq), empty_gradient(args.dk), empty_gradient(args.dv), empty_gradient(args.dbias),
              empty_gradient(args.dsinks)};
  for (Gradient *whole : {&g.dbias, &g.dsinks}) std::fill(whole->written.begin(), whole->written.end(), 1);
  Pass<Real> pass(call, args, forward, &g);
  for (const Sequence &s : call.sequences) pass.run(s);
  if (!has_f32_exponents(call.q_type()))
    for (Gradient *sum : {&g.dq, &g.dk, &g.dv}) add_lost_in_scaling(sum);
  return g;
}

}  // namespace

fa_forward_args forward_args(const fa_backward_args &args) {
  fa_forward_args result;
  fa_forward_args_init(&result, sizeof result);
#define FA_COPY(name, ...) result.name = args.name;
  FA_INPUT_FIELDS(FA_COPY, FA_COPY, FA_NOTHING)
#undef FA_COPY
  result.out = args.out;
  result.num_seqs = args.num_seqs, result.max_seqlen_q = args.max_seqlen_q, result.max_seqlen_k = args.max_seqlen_k;
  return result;
}

Gradients gradients(const fa_desc &desc, const fa_backward_args &args, const Result *forward) {
  return evaluate<double>(desc, args, forward);
}

Gradients naive_gradients(const fa_desc &desc, const fa_backward_args &args, const Result *forward) {
  Gradients g = evaluate<float>(desc, args, forward);
  const fa_dtype kv = desc.dtype_kv ? desc.dtype_kv : desc.dtype_q;
  const auto round = [](Gradient *gradient, fa_dtype type) {
    for (double &x : gradient->value) x = round_to(type, float(x));
  };
  round(&g.dq, type_of(args.dq, desc.dtype_q));
  round(&g.dk, type_of(args.dk, kv));
  round(&g.dv, type_of(args.dv, kv));
  round(&g.dbias, type_of(args.dbias, type_of(args.bias, FA_F32)));
  return g;
}

}  // namespace reference
