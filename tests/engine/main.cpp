// Runs the suites; or, with FA_CASE set, the one case that it describes.
#include <fa.h>
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "reference/run.h"

namespace {

/// ctest's SKIP_RETURN_CODE.
constexpr int skipped = 77;

/// The kernels to replay a case on: the forced one, else all that this machine runs.
std::vector<std::string> replay_kernels() {
  if (const char *forced = std::getenv("FA_FORCE_KERNEL"); forced && *forced) return {forced};
  std::vector<std::string> names;
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info = {};
    info.struct_size = sizeof info;
    if (fa_kernel_info(i, &info) == FA_OK && info.available && std::string(info.device) == "cpu")
      names.push_back(info.name);
  }
  return names;
}

int replay(const char *text) {
  std::string error;
  const reference::Case c = reference::case_from_text(text, &error);
  if (!error.empty()) {
    std::fprintf(stderr, "FA_CASE: %s\n", error.c_str());
    return 2;
  }
  int failures = 0;
  for (const std::string &kernel : replay_kernels()) {
    reference::Errors e;
    const std::string failure = reference::failure_of(c, kernel, &e);
    failures += !failure.empty();
    std::printf("%s: %s (error %.3g, naive %.3g, %.3g of the bound; lse %.3g of its bound)\n", kernel.c_str(),
                failure.empty() ? "ok" : failure.c_str(), e.out, e.naive, e.of_bound, e.lse_of_bound);
  }
  return failures ? 1 : 0;
}

/// A part of the filter that selects no test; or "".
std::string name_of_none() {
  const std::string filter = testing::GTEST_FLAG(filter);
  std::istringstream parts(filter.substr(0, filter.find('-')));
  const testing::UnitTest &all = *testing::UnitTest::GetInstance();
  for (std::string part; std::getline(parts, part, ':');) {
    bool selects = false;
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
      const testing::TestSuite &suite = *all.GetTestSuite(i);
      for (int j = 0; j < suite.total_test_count() && !selects; ++j) {
        const std::string name = std::string(suite.name()) + "." + suite.GetTestInfo(j)->name();
        selects = fnmatch(part.c_str(), name.c_str(), 0) == 0;
      }
    }
    if (!selects) return part;
  }
  return "";
}

}  // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  reference::explain_crashes();
  if (const char *text = std::getenv("FA_CASE")) return replay(text);
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest &all = *testing::UnitTest::GetInstance();
  if (testing::GTEST_FLAG(list_tests)) return 0;
  if (const std::string name = name_of_none(); !name.empty()) {
    std::fprintf(stderr, "no test has such a name: %s\n", name.c_str());
    return 1;
  }
  if (std::getenv("TEST_SKIPS_NONE") && all.skipped_test_count() > 0) {
    std::fprintf(stderr, "%d tests were skipped, and none may be\n", all.skipped_test_count());
    return 1;
  }
  return result == 0 && all.successful_test_count() == 0 ? skipped : result;
}
