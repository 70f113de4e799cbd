#include "reference/backward.h"

#include <cmath>
#include <limits>

#include "reference/call.h"
#include "reference/number.h"
#include "reference/oracle.h"
#include "reference/random.h"

namespace reference {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

enum Stream : uint64_t { for_dout = 101, for_dlse, for_before };

/// A number of dout's type at its ends, for some.
double at_the_ends(uint64_t bits, fa_dtype dtype, double usual) {
  const double sign = bits % 2 ? 1 : -1;
  switch (bits / 2 % 29) {
    case 0:
      return sign * largest(dtype);
    case 1:
      return sign * smallest(dtype);
    case 2:
      return sign * 0.75 * smallest_normal(dtype);
    default:
      return usual;
  }
}

Case with_lse(Case c) {
  c.lse = true;
  return c;
}

fa_dtype either(fa_dtype given, fa_dtype usual) {
  return given ? given : usual;
}

}  // namespace

BackwardInstance::BackwardInstance(const Case &given, Guard guard) : Instance(with_lse(given), guard) {
  make_results(guard);
  make_gradients(guard);
  bind_call();
  clear_gradients();
  as_built_ = read_bytes();
}

/// out and lse, and the gradients of both. Rows that are no outputs, or have no keys left, hold NaN.
void BackwardInstance::make_results(Guard guard) {
  const Result exact = attention(desc, args);
  dout = Tensor(out.shape(), either(c.dout, c.out_type()), c.dout_layout, guard);
  if (c.dlse) dlse = Tensor(lse.shape(), FA_F32, c.out_layout, guard);
  if (c.delta) delta = Tensor(lse.shape(), FA_F32, c.out_layout, guard);

  const auto lives = [&](int64_t b, int64_t i, int64_t h) {
    return exact.written[size_t(exact.row(b, i))] && exact.lse[size_t(exact.head(b, i, h))] != -infinity;
  };
  const auto size = [&](int64_t i) { return std::ldexp(1.0, -c.dout_fall * int(i % 3)); };
  // Where a stride of 0 makes elements the same, the last one counts, and live ones are written last.
  dout.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t) {
    if (!lives(b, i, h)) dout.set(b, i, h, d, nan);
  });
  dout.each([&](int64_t b, int64_t i, int64_t h, int64_t d, int64_t n) {
    if (!lives(b, i, h)) return;
    const uint64_t bits = hash(c.seed, for_dout, uint64_t(n));
    const double x = size(i) * amplitude(c, 'd', dout.dtype(), c.dout_amp) * normal(bits);
    dout.set(b, i, h, d, c.dout_ends ? at_the_ends(hash(bits), dout.dtype(), x) : x);
  });
  lse.each([&](int64_t b, int64_t h, int64_t i, int64_t, int64_t n) {
    const int64_t at = exact.head(b, i, h);
    if (!exact.written[size_t(exact.row(b, i))]) return;
    lse.set(b, h, i, 0, exact.lse[size_t(at)]);
    if (!lives(b, i, h)) return;
    double sum = 0;
    for (int64_t d = 0; d < exact.dim; ++d) {
      out.set(b, i, h, d, exact.out[size_t(at * exact.dim + d)]);
      sum += dout.get(b, i, h, d) * out.get(b, i, h, d);
    }
    if (delta) delta.set(b, h, i, 0, sum);
    if (dlse) dlse.set(b, h, i, 0, size(i) * normal(hash(c.seed, for_dlse, uint64_t(n))));
  });
}

void BackwardInstance::make_gradients(Guard guard) {
  const auto wanted = [&](char letter) { return c.grads.find(letter) != std::string::npos; };
  if (wanted('q')) dq = Tensor(q.shape(), either(c.dq, c.q), c.grad_layout, guard);
  if (wanted('k')) dk = Tensor(k.shape(), either(c.dk, c.kv_type()), c.grad_layout, guard);
  if (wanted('v')) dv = Tensor(v.shape(), either(c.dv_type, c.kv_type()), c.grad_layout, guard);
  if (!c.dbias.empty() && bias)
    dbias =
        Tensor(kept_shape(c.dbias, {c.b, c.hq, c.sq, c.sk}), either(c.dbias_type, bias.dtype()), c.grad_layout, guard);
  if (!c.dsinks.empty() && sinks)
    dsinks = Tensor(kept_shape(c.dsinks, {c.b, c.hq, 1, 1}), FA_F32, c.grad_layout, guard);
}

std::vector<BackwardInstance::Output> BackwardInstance::outputs() const {
  std::vector<Output> list;
  const Output all[] = {
      {"dq", 'q', &dq}, {"dk", 'k', &dk}, {"dv", 'v', &dv}, {"dbias", 'b', &dbias}, {"dsinks", 's', &dsinks}};
  for (const Output &output : all)
    if (*output.tensor) list.push_back(output);
  return list;
}

void BackwardInstance::bind_call() {
  fa_backward_args_init(&call, sizeof call);
#define FA_TENSOR(name, ...) call.name = name.view();
#define FA_ARRAY(name, ...) call.name = name.data();
  FA_BACKWARD_FIELDS(FA_TENSOR, FA_ARRAY, FA_NOTHING)
#undef FA_TENSOR
#undef FA_ARRAY
  if (delta) call.out = {};
  call.num_seqs = args.num_seqs, call.max_seqlen_q = args.max_seqlen_q, call.max_seqlen_k = args.max_seqlen_k;
  const std::pair<char, uint32_t> bits[] = {{'q', FA_ACCUMULATE_DQ},
                                            {'k', FA_ACCUMULATE_DK},
                                            {'v', FA_ACCUMULATE_DV},
                                            {'b', FA_ACCUMULATE_DBIAS},
                                            {'s', FA_ACCUMULATE_DSINKS}};
  for (const auto &[letter, bit] : bits)
    if (c.accumulate.find(letter) != std::string::npos) call.accumulate |= bit;
}

double BackwardInstance::before(const Output &output, int64_t n) const {
  return float(normal(hash(c.seed, for_before + uint64_t(output.letter), uint64_t(n))));
}

void BackwardInstance::accept_results() {
  as_built_ = read_bytes();
}

std::vector<char> BackwardInstance::rows_of(const Output &output) const {
  if (output.letter == 'q') return written_rows();
  const Tensor::Shape &shape = output.tensor->shape();
  const bool of_keys = output.letter == 'k' || output.letter == 'v';
  std::vector<char> rows(size_t(shape[0] * shape[1]), !of_keys);
  if (!of_keys) return rows;
  for (const Sequence &s : Call(desc, args).sequences)
    for (int64_t j = 0; j < s.keys; ++j) rows[size_t(s.k_batch * shape[1] + s.k_row + j)] = 1;
  return rows;
}

void BackwardInstance::clear_gradients() const {
  for (const Output &output : outputs()) {
    const Tensor &t = *output.tensor;
    t.clear();
    if (!adds_to(output)) continue;
    const std::vector<char> rows = rows_of(output);
    t.each([&](int64_t i, int64_t j, int64_t m, int64_t l, int64_t n) {
      if (rows[size_t(i * t.shape()[1] + j)]) t.set(i, j, m, l, before(output, n));
    });
  }
}

std::string BackwardInstance::gradients_untouched() const {
  for (const Output &output : outputs())
    if (const std::string text = output.tensor->untouched_outside(rows_of(output)); !text.empty())
      return output.name + (": " + text);
  return read_bytes() == as_built_ ? "" : "an input was written";
}

std::vector<char> BackwardInstance::read_bytes() const {
  std::vector<char> all = input_bytes();
  const auto add_read = [&](const Tensor &tensor) {
    const std::vector<char> bytes = tensor.bytes();
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  const auto add_written = [](const Tensor &) {};
#define FA_TENSOR(name, access, ...) add_##access(name);
  FA_BACKWARD_OWN_FIELDS(FA_TENSOR, FA_NOTHING, FA_NOTHING)
#undef FA_TENSOR
  return all;
}

std::vector<char> BackwardInstance::gradient_bits() const {
  std::vector<char> bits;
  for (const Output &output : outputs()) {
    const Tensor &t = *output.tensor;
    t.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) {
      const char *element = t.at(i, j, m, n);
      bits.insert(bits.end(), element, element + dtype_bytes(t.dtype()));
    });
  }
  return bits;
}

}  // namespace reference
