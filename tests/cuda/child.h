// The results of tests that run in a child process.
#pragma once

#include <cstdio>
#include <string>

namespace cuda_test {

/// The results of a child.
enum Outcome { fine, reported, wrong, not_ours, over };

inline int bad(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return wrong;
}

}  // namespace cuda_test
