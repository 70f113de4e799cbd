// The error bounds that docs/precision.md publishes, and the comparison of a call's outputs with the oracle's.
#pragma once

#include <string>

#include "reference/instance.h"
#include "reference/oracle.h"

namespace reference {

/// The oracle's results of a case.
struct Expected {
  Result exact, naive;
  explicit Expected(const Instance &instance)
      : exact(attention(instance.desc, instance.args)), naive(reference::naive(instance.desc, instance.args)) {}
};

/// Largest errors of a call, for the record.
struct Errors {
  double out = 0;       // absolute, of out
  double naive = 0;     // the naive computation's
  double of_bound = 0;  // out's error as a part of the elementwise bound
  double lse_of_bound = 0;
};

/// The elementwise bound of out's element (at: head of r, d: its column).
double out_bound(const Case &c, const Result &r, int64_t at, int64_t d);

/// The bound of an lse.
double lse_bound(const Case &c, const Result &r, int64_t at);

/// "" when out and lse of the instance are within both bounds, else the first error.
std::string compare(const Instance &instance, const Expected &expected, Errors *errors = nullptr);

}  // namespace reference
