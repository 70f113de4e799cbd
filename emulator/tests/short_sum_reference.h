// The sum of 8-bit floating point products that keeps 13 bits, term by term in doubles, as exec/short_sum.h describes
// it.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace emulated {

struct Term {
  double value;
  int exponent;  // in whose units it is cut
};

/// The exponent of a number whose format has this least one.
inline int exponent_of(double value, int least) {
  return value == 0 ? -1000 : std::max(std::ilogb(value), least);
}

/// cuts: the sum to 13 bits of mantissa; otherwise its caller rounds it.
inline double short_sum(const std::vector<Term> &terms, bool cuts) {
  constexpr int kept = 13;
  int greatest = -1000;
  for (const Term &term : terms)
    if (term.value != 0) greatest = std::max(greatest, term.exponent);
  double sum = 0;
  for (const Term &term : terms)
    sum += std::ldexp(std::trunc(std::ldexp(term.value, kept - greatest)), greatest - kept);
  if (!cuts || sum == 0) return sum;
  const int own = std::ilogb(sum);
  return std::ldexp(std::trunc(std::ldexp(sum, kept - own)), own - kept);
}

}  // namespace emulated
