// `fa check`: right on a sound library, and able to say that something is wrong.
#include <gtest/gtest.h>

#include <set>

#include "check_case.h"
#include "program.h"
#include "reference/sanitizer.h"

namespace {

using test::fa;
using test::Finished;

TEST(Check, EveryKernelIsRight) {
  const Finished f = reference::slow ? fa({"check", "--kernel", "cpu.generic"}) : fa({"check"});
  EXPECT_EQ(f.code, 0) << f.out << f.err;
  EXPECT_NE(f.out.find("cpu.generic"), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("checks are right"), f.out.npos) << f.out;
  EXPECT_EQ(f.out.find("WRONG"), f.out.npos) << f.out;
}

TEST(Check, OneKernelInWords) {
  const Finished f = fa({"check", "--kernel", "cpu.generic", "--verbose"});
  EXPECT_EQ(f.code, 0) << f.out << f.err;
  for (const fa::tool::CheckCase &each : fa::tool::check_cases()) {
    EXPECT_NE(f.out.find(std::string(", ") + each.name + ": right"), f.out.npos) << each.name;
  }
  std::vector<std::string> compared;  // not measured
  for (const fa::tool::CheckMerge &each : fa::tool::check_merges()) compared.emplace_back(each.name);
  for (const fa::tool::CheckAppend &each : fa::tool::check_appends()) compared.emplace_back(each.name);
  for (const std::string &name : compared) {
    for (const fa::tool::CheckType &type : fa::tool::check_types()) {
      const std::string line = std::string(type.name) + ", " + name + ": right\n";
      EXPECT_NE(f.out.find(line), f.out.npos) << line;
    }
  }
}

/// Every quantised format is read, as k and as v, and written.
TEST(Check, EveryQuantisedFormat) {
  std::string read;
  std::set<fa_dtype> written;
  for (const fa::tool::CheckCase &each : fa::tool::check_cases())
    if (each.stored) read += std::string(" ") + each.stored;
  for (const fa::tool::CheckAppend &each : fa::tool::check_appends()) written.insert({each.c.cache, each.c.v_cache});
#define FA_CODES(dtype, number, name, ...)                                                                           \
  EXPECT_TRUE(read.find(" kv=" #name " ") != read.npos || read.find(" v=" #name) != read.npos) << "reads no " #name; \
  EXPECT_TRUE(written.count(number)) << "writes no " #name;
#include "src/core/codes.inc"
#undef FA_CODES
}

TEST(Check, RefusesKernelsThatAreNotThere) {
  const Finished f = fa({"check", "--kernel", "cpu.abacus"});
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("no kernel is named 'cpu.abacus'"), f.err.npos) << f.err;
}

#ifdef TEST_WRONG_LIBRARY

/// A library that computes something else: one whose functions are replaced by the loader.
TEST(Check, FindsWrongResults) {
  const Finished f = fa({"check", "--kernel", "cpu.generic", "--verbose"}, {{"LD_PRELOAD", TEST_WRONG_LIBRARY}});
  EXPECT_EQ(f.code, 1) << f.out << f.err;
  for (const char *line :
       {", merge: WRONG\n", ", append: WRONG\n", ", append to a 4-bit cache: WRONG\n", ", 4-bit cache: WRONG\n"})
    EXPECT_NE(f.out.find(line), f.out.npos) << line << f.out;
  EXPECT_NE(f.out.find("WRONG"), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("repeat: fa run --kernel cpu.generic --case '"), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("FAILED"), f.out.npos) << f.out;
  const Finished replay =
      fa({"run", "--kernel", "cpu.generic", "--case", "sq=4 sk=4"}, {{"LD_PRELOAD", TEST_WRONG_LIBRARY}});
  EXPECT_EQ(replay.code, 1);
  EXPECT_NE(replay.err.find("the case fails: "), replay.err.npos) << replay.err;
}

#endif

}  // namespace
