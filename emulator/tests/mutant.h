// Kernels with a fault by number: one launch, and the checks' report of it (FA_EMU_CHECK=2).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client.h"
#include "reported.h"

namespace emulated {

/// For tests that take their faults from a table.
struct Mutant {
  const char *name;
  int fault;
  const char *report;  // parts of which one must be in the report; empty: no report
  bool wrong = false;  // results are
};

inline void PrintTo(const Mutant &mutant, std::ostream *out) {
  *out << mutant.name;
}

inline std::string name_of(const testing::TestParamInfo<Mutant> &info) {
  return info.param.name;
}

/// PTX that ends kernels to which something is sent: threads wait for the first phase of an mbarrier, if a predicate
/// says so, and each (%r2) stores its word in shared memory to its place of the kernel's words (%rd1).
/// Registers.
inline std::string receive(const std::string &waits, const std::string &mbarrier, const std::string &word) {
  return "{\n.reg .pred %done; .reg .b32 %found; .reg .b64 %place;\n@!" + waits +
         " bra read;\nagain:\nmbarrier.try_wait.parity.shared.b64 %done, [" + mbarrier +
         "], 0;\n@!%done bra again;\nread:\nld.shared.u32 %found, [" + word +
         "];\nmul.wide.u32 %place, %r2, 4;\nadd.s64 %place, %place, %rd1;\nst.global.u32 [%place], %found;\n}\n";
}

/// The report of a kernel of the PTX that is given 512 words of zeros and further parameters.
template <class... Parameters>
std::string report_of(const std::string &ptx, const char *name, Shape grid, Shape block, Parameters... parameters) {
  return reported([&] {
    start();
    Array<int> words(std::vector<int>(512));
    launch(kernel(ptx, name), grid, block, 0, words.address, parameters...);
  });
}

/// parts: as mentions() takes them; empty: no report.
inline void expect_report(const std::string &report, const std::string &parts) {
  if (parts.empty())
    EXPECT_EQ(report, "");
  else
    EXPECT_TRUE(mentions(report, parts)) << report;
}

}  // namespace emulated
