// `fa info`: the text that goes into a bug report, and its JSON.
#include <fa.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "program.h"

namespace {

using nlohmann::json;
using test::fa;
using test::Finished;

TEST(Info, TellsVersionMachineAndKernels) {
  const Finished f = fa({"info"}, {{"FA_NUM_THREADS", "2"}});
  EXPECT_EQ(f.code, 0);
  EXPECT_EQ(f.err, "");
  for (const char *part : {"libfa      " FA_VERSION_STRING "\n", "build ", "cpu ", "GPUs", "Kernels, best first",
                           "cpu.generic", "available", "Gradients (fa_backward)", "Kernels chosen here", "bf16",
                           "f32 over f16", "set        FA_NUM_THREADS=2"}) {
    EXPECT_NE(f.out.find(part), f.out.npos) << part << "\n" << f.out;
  }
}

TEST(Info, JsonHasTheSame) {
  const Finished f = fa({"info", "--json"}, {{"FA_NUM_THREADS", "2"}});
  EXPECT_EQ(f.code, 0);
  const json info = json::parse(f.out);
  EXPECT_EQ(info.at("version"), FA_VERSION_STRING);
  EXPECT_EQ(info.at("build"), fa_build_info());
  EXPECT_TRUE(std::filesystem::exists(info.at("library").get<std::string>())) << info.at("library");
  EXPECT_EQ(info.at("environment").at("FA_NUM_THREADS"), "2");
  EXPECT_GE(info.at("machine").at("cpus_usable").get<int>(), 1);
  EXPECT_EQ(info.at("kernels").size(), static_cast<size_t>(fa_kernel_count()));
  for (const json &kernel : info.at("kernels")) {
    EXPECT_EQ(kernel.at("available").get<bool>(), kernel.at("unavailable_reason") == "") << kernel;
    const std::string name = kernel.at("name"), backward = kernel.at("backward").at(0);
    const bool of_the_cpu = kernel.at("device") == "cpu";
    EXPECT_EQ(backward == name, of_the_cpu && name != "cpu.amx_bf16x2") << kernel;
    EXPECT_EQ(backward.starts_with("cpu."), of_the_cpu) << kernel;
  }
  EXPECT_EQ(info.at("gpus").empty(), info.at("no_gpu_reason") != "");
  for (const json &gpu : info.at("gpus")) EXPECT_EQ(gpu.at("kernel") == "", gpu.at("unavailable_reason") != "") << gpu;
  EXPECT_EQ(info.at("chosen").size(), 5u);
  for (const json &choice : info.at("chosen")) EXPECT_NE(choice.at("kernel"), "") << choice;
}

/// The text is for people who have not made an fa_desc.
TEST(Info, WhyThereIsNoGpu) {
  const json info = json::parse(fa({"info", "--json"}).out);
  const std::string none = info.at("no_gpu_reason");
  EXPECT_EQ(none.find("desc."), none.npos) << none;
  EXPECT_EQ(none.find("FA_ERROR"), none.npos) << none;
}

/// Many kernels may lack the same.
TEST(Info, SaysEachReasonOnce) {
  const std::string text = fa({"info"}).out;
  const json info = json::parse(fa({"info", "--json"}).out);
  const auto times = [&](const std::string &reason) {
    int count = 0;
    for (size_t at = reason.empty() ? text.npos : text.find(reason); at != text.npos; at = text.find(reason, at + 1))
      ++count;
    return count;
  };
  const std::string none = info.at("no_gpu_reason");
  EXPECT_EQ(times(none), none.empty() ? 0 : 1) << text;
  for (const json &kernel : info.at("kernels")) {
    const std::string reason = kernel.at("unavailable_reason");
    EXPECT_EQ(times(reason), reason.empty() ? 0 : 1) << text;
  }
}

TEST(Info, ControlCharactersAreNotShown) {
  const Finished f = fa({"info"}, {{"FA_KERNEL_PATH", "\033[31m"}, {"FA_FORCE_KERNEL", "\033[32m"}});
  EXPECT_EQ(f.out.find('\033'), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("FA_KERNEL_PATH=\\x1b[31m"), f.out.npos) << f.out;
}

TEST(Info, SaysWhyNothingRuns) {
  const Finished f = fa({"info"}, {{"FA_FORCE_KERNEL", "no.such.kernel"}});
  EXPECT_EQ(f.code, 0);
  EXPECT_NE(f.out.find("nothing: "), f.out.npos) << f.out;
  EXPECT_NE(f.out.find("no.such.kernel"), f.out.npos) << f.out;
  const json info = json::parse(fa({"info", "--json"}, {{"FA_FORCE_KERNEL", "no.such.kernel"}}).out);
  EXPECT_NE(info.at("chosen").at(0).at("unavailable_reason"), "");
}

TEST(Info, JsonSurvivesBytesThatAreNoText) {
  const Finished f = fa({"info", "--json"}, {{"FA_VERBOSE", "\xff\xfe"}});
  EXPECT_EQ(f.code, 0);
  EXPECT_TRUE(json::accept(f.out)) << f.out;
}

}  // namespace
