// The sums that gradients are: a term is added to the values of neighbouring elements and to their bounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "reference/gradients.h"

namespace reference {

/// The element of a tensor some of whose dimensions are 1, and repeat.
inline int64_t repeated(const Gradient &g, int64_t i, int64_t j, int64_t k, int64_t l) {
  const auto index = [&](size_t dimension, int64_t n) { return g.shape[dimension] == 1 ? 0 : n; };
  return g.at(index(0, i), index(1, j), index(2, k), index(3, l));
}

/// A term of a sum, with its error and one rounding of its factors. Only the exact sums have these.
struct Term {
  double value, error, rounding;
};

/// The loss of a product, and of an operand, below f32's normal numbers: dot products of bf16 take them for 0 (Intel
/// SDM, VDPBF16PS).
constexpr double flushed = 0x1p-126;

/// Adds it times scale times each of n factors to n neighbouring elements, the first of which is at.
template <class Real>
void add(Gradient *g, int64_t at, Term t, Real scale, const Real *factors, int64_t n) {
  double *__restrict value = g->value.data() + at, *__restrict bound = g->bound.data() + at;
  double *__restrict floor = g->floor.data() + at, *__restrict largest = g->largest.data() + at;
  double *__restrict lengths = g->lengths.data() + at;
  for (int64_t d = 0; d < n; ++d) {
    const Real factor = scale * factors[d];
    value[d] = Real(value[d]) + Real(t.value) * factor;
    if constexpr (std::is_same_v<Real, double>) {
      const double lost = flushed * std::max(std::abs(scale), 1.0) * (1 + std::abs(t.value));
      bound[d] += t.error * std::abs(factor) + lost;
      floor[d] += t.rounding * std::abs(factor) + lost;
      largest[d] = std::max(largest[d], std::abs(double(t.value)));
      lengths[d] += std::abs(factor);
    }
  }
}

/// Marks those of n neighbouring elements, the first of which is at, whose formulas add a term that is not finite.
inline void mark_reached(Gradient *g, int64_t at, double term, const double *factors, int64_t n) {
  for (int64_t d = 0; d < n; ++d)
    if (!std::isfinite(term * factors[d])) g->reached[size_t(at + d)] = 1;
}
inline void mark_reached(Gradient *g, int64_t at, double term) {
  const double one = 1;
  mark_reached(g, at, term, &one, 1);
}

/// The loss of sums with terms below f16's normal numbers, relative to the largest (docs/precision.md, f).
inline void add_lost_in_scaling(Gradient *g) {
  for (size_t i = 0; i < g->value.size(); ++i) {
    const double lost = 0x1p-34 * g->largest[i] * g->lengths[i];
    g->bound[i] += lost, g->floor[i] += lost;
  }
}

template <class Real>
void add(Gradient *g, int64_t at, Term t) {
  const Real one = 1;
  add<Real>(g, at, t, one, &one, 1);
}

}  // namespace reference
