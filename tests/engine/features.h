// The shared case list: every feature of fa.h as one change to a plain case, alone and in pairs, and the sizes at which
// kernels go wrong.
#pragma once

#include <string>
#include <vector>

#include "reference/case.h"

namespace test {
using namespace reference;

struct Feature {
  const char *name;
  const char *group;  // of two features in one group a case can have one only
  void (*add)(Case *c);
};

const std::vector<Feature> &features();

/// The features of the backward pass alone, and the features that it shares with forward.
const std::vector<Feature> &backward_features();

/// Plain cases that exercise different paths of an engine: a few tiles, one query over many keys, several blocks.
const std::vector<Case> &bases();

/// Cases for pairs of features, which are many: smaller where everything is slow.
const std::vector<Case> &pair_bases();

/// Cases without a query, without a head, and without a key.
std::vector<Case> empty_cases();

/// For a combination that fa.h refuses, the names that the error must hold; empty for all others.
std::vector<std::string> refused(const Case &c);

}  // namespace test
