// The cases of `fa check`, and a case of the test suite that is run and compared with the double-precision oracle, for
// `fa check` and `fa run --case`.
#pragma once

#include <string>
#include <vector>

#include "reference/append.h"
#include "reference/merge.h"

namespace fa::tool {

struct CheckCase {
  const char *name;
  const char *line;              // in the form of `fa run --case`, without the types
  const char *stored = nullptr;  // the types and scales of quantised k and v, in place of a type's own
};

/// Few and small: all of them on one kernel in one type take well under a second.
const std::vector<CheckCase> &check_cases();

/// fa_merge in one type.
struct CheckMerge {
  const char *name;
  reference::MergeCase c;
};

const std::vector<CheckMerge> &check_merges();

/// fa_append in one type; a cache without a type has that of k and v.
struct CheckAppend {
  const char *name;
  reference::AppendCase c;
};

const std::vector<CheckAppend> &check_appends();

/// The types in which each case runs: q, and k and v; of merges the result, and the parts but for the first.
struct CheckType {
  const char *name;
  fa_dtype q, kv;
};
const std::vector<CheckType> &check_types();

/// The case in a type, in the form of `fa run --case`.
std::string line_of(const CheckCase &each, const CheckType &type);

struct CaseOutcome {
  std::string text;         // the whole case, as one line
  std::string kernel;       // the one that ran; "" when none did
  std::string unsupported;  // why this kernel does not support the case; "" when it does
  std::string failure;      // the error, and how to repeat it; "" when all is right
  bool measured = false;    // true when there are the errors below
  double error = 0;         // largest, absolute
  double naive_error = 0;   // of the same maths done naively in the low precision
  double of_bound = 0;      // the largest error as a part of its element's bound
};

/// Runs the case of a line on a kernel, or for "" on the one that the library chooses. Tensors are between guard pages.
/// Throws BadInput when the line is no case.
CaseOutcome check_case(const std::string &line, const std::string &kernel);

/// The same of a merge, whose error is compared with its bound, not measured.
CaseOutcome check_merge(const CheckMerge &merge, const CheckType &type, const std::string &kernel);

/// The same of an append, each byte of whose cache is compared with the expected ones.
CaseOutcome check_append(const CheckAppend &append, const CheckType &type, const std::string &kernel);

}  // namespace fa::tool
