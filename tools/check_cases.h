// The small list of cases that `fa check` runs on every kernel: each feature of the library at least once.
#pragma once

#include <vector>

namespace fa::tool {

struct CheckCase {
  const char *name;
  const char *line;  // in the form of `fa run --case`, without the types
};

/// Few and small: all of them on one kernel in one type take well under a second.
const std::vector<CheckCase> &check_cases();

/// The types in which each case runs: q, and k and v.
struct CheckType {
  const char *name;
  const char *line;
};
const std::vector<CheckType> &check_types();

}  // namespace fa::tool
