// Kernels with a fault by number: one launch, and what the checks tell of it (FA_EMU_CHECK=2).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client.h"
#include "told.h"

namespace emulated {

/// For tests that take their faults from a table.
struct Mutant {
  const char *name;
  int fault;
  const char *report;  // parts of which one must be told; empty: nothing may be
  bool wrong = false;  // results are
};

inline void PrintTo(const Mutant &mutant, std::ostream *out) {
  *out << mutant.name;
}

inline std::string name_of(const testing::TestParamInfo<Mutant> &info) {
  return info.param.name;
}

/// What is told of a kernel of the PTX that is given 512 words of zeros and further parameters.
template <class... Parameters>
std::string told_of(const char *ptx, const char *name, Shape grid, Shape block, Parameters... parameters) {
  return told([&] {
    start();
    Array<int> words(std::vector<int>(512));
    launch(kernel(ptx, name), grid, block, 0, words.address, parameters...);
  });
}

/// parts: as tells takes them; empty: nothing may be told.
inline void expect_told(const std::string &told, const std::string &parts) {
  if (parts.empty())
    EXPECT_EQ(told, "");
  else
    EXPECT_TRUE(tells(told, parts)) << told;
}

}  // namespace emulated
