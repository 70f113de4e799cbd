// When is a gradient right? The bounds that docs/precision.md publishes, and the comparison of a backward call's
// outputs with the oracle's.
#pragma once

#include <string>

#include "reference/backward.h"
#include "reference/compare.h"
#include "reference/gradients.h"

namespace reference {

/// The oracle's results of a backward call.
struct ExpectedGradients {
  Gradients exact, naive;
  explicit ExpectedGradients(const BackwardInstance &instance);
};

/// "" when all gradients of the instance are within both bounds, else the first error. Elements in which a pair with
/// something not finite has a part may be anything, but no finite number where the formulas give none.
std::string compare(const BackwardInstance &instance, const ExpectedGradients &expected, Errors *errors = nullptr);

}  // namespace reference
