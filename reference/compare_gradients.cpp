#include "reference/compare_gradients.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>

#include "reference/call.h"
#include "reference/number.h"

namespace reference {
namespace {

constexpr double u32 = 0x1p-24;

/// How much larger than naive's the largest error of a gradient may be: the backward pass alone, and both passes.
constexpr double of_naive = 1.5, of_naive_chained = 2;

/// Of fewer numbers than these, naive's largest error may be smaller by luck, by as much as a rounding in q's type
/// between the two passes.
constexpr int64_t few = 16;

const Gradient &gradient_of(const Gradients &g, char letter) {
  return letter == 'q' ? g.dq : letter == 'k' ? g.dk : letter == 'v' ? g.dv : letter == 'b' ? g.dbias : g.dsinks;
}

struct Location {
  const char *name;
  int64_t i, j, k, l;
};

std::string describe(const Location &p, double got, double want, double bound) {
  char text[256];
  std::snprintf(text, sizeof text, "%s[%lld][%lld][%lld][%lld] is %.9g, expected %.9g, error %.3g, bound %.3g", p.name,
                (long long)p.i, (long long)p.j, (long long)p.k, (long long)p.l, got, want, std::abs(got - want), bound);
  return text;
}

/// One gradient.
std::string compare_one(const BackwardInstance &instance, const BackwardInstance::Output &output, const Gradient &exact,
                        const Gradient &naive, Errors *total) {
  const Tensor &t = *output.tensor;
  const double rounding = unit_roundoff(t.dtype());
  const bool adds = instance.adds_to(output);
  // A sum, before it is scaled, may have steps that f32 does not hold: floor is no less than a rounding of each term.
  const double scale = Call(instance.desc, instance.args).scale();
  const double most = FLT_MAX * unit_roundoff(instance.c.q) * std::min(1.0, std::abs(scale));
  const double of_luck = instance.c.chained && int64_t(exact.value.size()) < few ? unit_roundoff(instance.c.q) : 0;
  double worst_error = 0, naive_error = 0, floor = 0;
  std::string wrong, worst;
  t.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t n) {
    const auto at = size_t(n);
    if (!wrong.empty() || !exact.written[size_t(i * t.shape()[1] + j)]) return;
    const double before = adds ? instance.before(output, n) : 0, want = exact.value[at] + before;
    if ((exact.reached[at] || !std::isfinite(before)) && std::isfinite(t.get(i, j, k, l))) {
      wrong = describe({output.name, i, j, k, l}, t.get(i, j, k, l), want, 0) + ": inputs of NaN or infinity reach it";
      return;
    }
    if (!std::isfinite(want) || std::abs(want) > largest(t.dtype()) || exact.floor[at] > most) return;
    const double got = t.get(i, j, k, l), error = std::abs(got - want);
    const double bound = exact.bound[at] + 4 * u32 * std::abs(exact.value[at]) + 2 * u32 * std::abs(before) +
                         rounding * std::abs(want) + smallest(t.dtype());
    if (std::isinf(got) && std::abs(want) + bound > largest(t.dtype())) return;  // the type does not hold all within
    const Location location = {output.name, i, j, k, l};
    if (!(error <= bound)) {
      wrong = describe(location, got, want, bound);
      return;
    }
    if (error > worst_error) worst = describe(location, got, want, bound);
    worst_error = std::max(worst_error, error);
    naive_error = std::max(naive_error, std::abs(naive.value[at] - exact.value[at]));
    floor = std::max(floor, exact.floor[at] + 4 * u32 * std::abs(before) + (4 * u32 + of_luck) * std::abs(want));
    if (bound > 0) total->of_bound = std::max(total->of_bound, error / bound);
  });
  if (!wrong.empty()) return wrong;
  total->out = std::max(total->out, worst_error);
  total->naive = std::max(total->naive, naive_error);
  const double factor = instance.c.chained ? of_naive_chained : of_naive;
  if (worst_error <= factor * naive_error + floor) return "";
  char text[160];
  std::snprintf(text, sizeof text, "; largest error %.3g is more than %.3g of naive's %.3g + %.3g", worst_error, factor,
                naive_error, floor);
  return worst + text;
}

}  // namespace

ExpectedGradients::ExpectedGradients(const BackwardInstance &instance) {
  const fa_desc &desc = instance.desc;
  if (!instance.c.chained) {
    exact = gradients(desc, instance.call);
    naive = naive_gradients(desc, instance.call);
    return;
  }
  const Result forward = attention(desc, instance.args), in_f32 = reference::naive(desc, instance.args);
  exact = gradients(desc, instance.call, &forward);
  naive = naive_gradients(desc, instance.call, &in_f32);
}

std::string compare(const BackwardInstance &instance, const ExpectedGradients &expected, Errors *errors) {
  Errors e;
  std::string text;
  for (const BackwardInstance::Output &output : instance.outputs()) {
    text = compare_one(instance, output, gradient_of(expected.exact, output.letter),
                       gradient_of(expected.naive, output.letter), &e);
    if (!text.empty()) break;
  }
  if (errors) *errors = e;
  return text;
}

}  // namespace reference
