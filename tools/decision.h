// The library's choice of a kernel, as it reports it under FA_VERBOSE=dispatch.
#pragma once

#include <fa.h>

#include <string>
#include <vector>

namespace fa::tool {

/// Kernels that follow each other in the library's table, and the decision on them.
struct Candidates {
  std::vector<std::string> kernels;
  bool chosen = false;
  std::string reason;  // of one that was not chosen; of the chosen one "", or the reason why it was the only candidate
};

/// The choice among the kernels of one engine: under FA_DEVICE_AUTO there are two.
struct Branch {
  std::string condition;  // "for tensors in memory of the host"; "" without one
  std::vector<Candidates> candidates;
};

struct Decision {
  std::string question;  // the attention, in words
  std::vector<Branch> branches;
  std::string kernel;   // of fa_op_kernel_name; "" where fa_create fails
  std::string failure;  // the library's error, where it fails
};

/// Creates the op. Throws BadInput for a description that is wrong on every machine.
Decision decide(const fa_desc &desc, const std::string &question);

/// As a tree of characters, a line for each kernel, or for several with the same reason.
std::string decision_text(const Decision &decision);

/// The same as an SVG.
std::string decision_svg(const Decision &decision);

}  // namespace fa::tool
