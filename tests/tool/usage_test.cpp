// The command line itself: help, version, unknown words, exit codes.
#include <fa.h>
#include <gtest/gtest.h>

#include <fstream>

#include "program.h"
#include "temporary.h"

namespace {

using test::fa;
using test::Finished;

void expect_usage_error(const std::vector<std::string> &arguments, const std::string &part) {
  const Finished f = fa(arguments);
  EXPECT_EQ(f.code, 2);
  EXPECT_EQ(f.out, "");
  EXPECT_NE(f.err.find(part), f.err.npos) << f.err;
  EXPECT_NE(f.err.find("--help"), f.err.npos) << f.err;
}

TEST(Usage, HelpOfEverything) {
  for (const std::vector<std::string> &arguments : {std::vector<std::string>{"--help"},
                                                    {"-h"},
                                                    {"info", "--help"},
                                                    {"run", "-h"},
                                                    {"append", "--help"},
                                                    {"draw", "--help"},
                                                    {"check", "--help"},
                                                    {"bench", "--help"}}) {
    const Finished f = fa(arguments);
    EXPECT_EQ(f.code, 0);
    EXPECT_EQ(f.err, "");
    EXPECT_NE(f.out.find("Usage: fa"), f.out.npos) << f.out;
    EXPECT_NE(f.out.find("Examples:"), f.out.npos) << f.out;
  }
}

TEST(Usage, HelpAsACommand) {
  EXPECT_EQ(fa({"help"}).out, fa({"--help"}).out);
  EXPECT_EQ(fa({"help", "run"}).out, fa({"run", "--help"}).out);
  expect_usage_error({"help", "rum"}, "unknown argument 'rum'; did you mean run?");
}

TEST(Usage, Version) {
  for (const char *asked : {"--version", "version", "-v", "-V"}) {
    const Finished f = fa({asked});
    EXPECT_EQ(f.code, 0) << asked;
    EXPECT_EQ(f.out, "fa " FA_VERSION_STRING "\n") << asked;
  }
}

TEST(Usage, SaysWhatIsWrong) {
  expect_usage_error({}, "fa: expected a command");
  expect_usage_error({"rum"}, "unknown argument 'rum'; did you mean run?");
  expect_usage_error({"--nonsense"}, "unknown option '--nonsense'\n");
  expect_usage_error({"run", "--casual"}, "fa run: unknown option '--casual'; did you mean --causal?");
  expect_usage_error({"run", "--blob"}, "unknown option '--blob'\n");  // near enough to none
  expect_usage_error({"run", "--casual=1"}, "did you mean --causal?");
  expect_usage_error({"run", "stray.npy"}, "unknown argument 'stray.npy'");
  expect_usage_error({"run", "--q"}, "--q takes one value");
  expect_usage_error({"run", "--q", "a", "--q", "b"}, "--q takes one value and may be given only once");
  expect_usage_error({"run", "--softcap", "much"}, "--softcap is 'much'; a number is expected");
  expect_usage_error({"run", "--threads", "2x"}, "--threads is '2x'; a whole number is expected");
  expect_usage_error({"run", "--layout", "sbhd"}, "--layout is 'sbhd'; one of bshd, bhsd is expected");
  expect_usage_error({"run", "--repeat", "0"}, "a whole number from 1 to 1e+06 is expected");
  expect_usage_error({"run", "--causal", "--causal-top-left"}, "--causal");
  expect_usage_error({"run", "--cu-seqlens", "a", "--cu-seqlens-k", "b"}, "--cu-seqlens");
  expect_usage_error({"append", "--compute-scale"}, "did you mean --compute-scales?");
  expect_usage_error({"append", "--dtype-kv", "i5"}, "--dtype-kv is 'i5'; one of f32, f16, bf16, i8, e4m3, e5m2, i4");
  expect_usage_error({"append", "--groups", "0"}, "--groups is '0'; a whole number from 1 to 576 is expected");
  expect_usage_error({"draw", "--queries", "257"}, "--queries is '257'; a whole number from 1 to 256 is expected");
  expect_usage_error({"draw", "--causl"}, "did you mean --causal?");
  expect_usage_error({"draw", "--causal", "--causal-top-left"}, "--causal");
  expect_usage_error({"bench", "--dtype", "f32,f64"}, "--dtype is 'f64'; one of f32, f16, bf16");
  expect_usage_error({"bench", "--sweep", "all"}, "all");
  expect_usage_error({"bench", "--rounds", "0"}, "0");
  expect_usage_error({"info", "--jason"}, "did you mean --json?");
  expect_usage_error({"check", "--kernels"}, "did you mean --kernel?");
}

TEST(Usage, AFullDiskIsAnError) {
  for (const char *arguments : {"info", "--help", "run --help", "--version"}) {
    const test::TemporaryFolder folder;
    const std::string command = std::string(TEST_FA) + " " + arguments + " > /dev/full 2> " + (folder / "err");
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << arguments;
    std::string text;
    std::getline(std::ifstream(folder / "err"), text);
    EXPECT_NE(text.find(": the standard output cannot be written: No space left on device"), text.npos) << text;
  }
}

TEST(Usage, ControlCharactersAreNotShown) {
  const std::string hostile = "a\033[31m\r\n\xc2\x9b\xff.npy", shown = "a\\x1b[31m\\x0d\\x0a\\xc2\\x9b\\xff.npy";
  for (const std::vector<std::string> &arguments :
       {std::vector<std::string>{"run", "--q", hostile, "--k", "k", "--v", "v", "--repeat", "1"}, {"run", hostile}}) {
    const Finished f = fa(arguments);
    EXPECT_EQ(f.code, 2);
    EXPECT_NE(f.err.find(shown), f.err.npos) << f.err;
    EXPECT_EQ(f.err.find_first_of("\033\r\x9b\xff"), f.err.npos) << f.err;
  }
}

}  // namespace
