// `fa explain`: its tree has the library's table up to the chosen kernel, with the reasons of those before it.
#include <fa.h>
#include <gtest/gtest.h>

#include <set>

#include "decision.h"
#include "file.h"
#include "program.h"
#include "svg_parts.h"
#include "temporary.h"

namespace {

using fa::tool::Decision;
using test::between;
using test::Finished;

std::vector<std::string> table() {
  std::vector<std::string> names;
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel kernel;
    kernel.struct_size = sizeof kernel;
    if (fa_kernel_info(i, &kernel) == FA_OK) names.emplace_back(kernel.name);
  }
  return names;
}

/// The kernels of a tree in characters, in order, and what is said of each.
std::vector<std::pair<std::string, std::string>> kernels_of(const std::string &text) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string &line : between(text, "─ c", "\n")) {
    const size_t end = line.find(' ');
    all.emplace_back("c" + line.substr(0, end), line.substr(line.find_first_not_of(' ', end)));
  }
  return all;
}

TEST(Explain, TheTableUpToTheChosenKernel) {
  const Finished f = test::fa({"explain", "--device", "cpu"}, {{"FA_MAX_ARCH", "generic"}});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.err, "");
  EXPECT_EQ(f.out.find("f32, head dimension 64, on the CPU\n"), 0u) << f.out;
  const auto kernels = kernels_of(f.out);
  const std::vector<std::string> names = table();
  ASSERT_EQ(kernels.size(), names.size()) << f.out;
  std::string reason;
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(kernels[i].first, names[i]);
    if (kernels[i].second != "no: likewise") reason = kernels[i].second;
    EXPECT_EQ(reason, names[i] == "cpu.generic"      ? "chosen"
                      : names[i].starts_with("cpu.") ? "no: FA_MAX_ARCH forbids it"
                                                     : "no: desc.device asks for the CPU");
  }
}

TEST(Explain, OptionsReachTheLibrary) {
  const Finished f =
      test::fa({"explain", "--dtype", "bf16", "--dtype-kv", "i8", "--head-dim", "96", "--head-dim-v", "32", "--causal",
                "--window", "7,0", "--chunk", "8", "--softcap", "2", "--batch-invariant", "--kernel", "cpu.generic"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(
      f.out.find(
          "bf16 over i8, head dimension 96 (32 of v), causal, window 7,0, chunks of 8, softcap 2, batch invariant\n"),
      0u)
      << f.out;
  EXPECT_NE(f.out.find("cpu.generic                  chosen: FA_FORCE_KERNEL asks for it\n"), f.out.npos) << f.out;
  const Finished wrong = test::fa({"explain", "--head-dim", "9999"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("head_dim is 9999"), wrong.err.npos) << wrong.err;
}

TEST(Explain, WhatNothingRuns) {
  const Finished f = test::fa({"explain", "--device", "gpu", "--kernel", "cpu.generic"});
  EXPECT_EQ(f.code, 1);
  EXPECT_NE(f.out.find("nothing runs it: "), f.out.npos) << f.out;
}

TEST(Explain, Picture) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "tree.svg";
  const Finished f = test::fa({"explain", "--device", "cpu", "-o", path}, {{"FA_MAX_ARCH", "generic"}});
  EXPECT_EQ(f.code, 0) << f.err;
  const std::vector<std::byte> bytes = fa::tool::read_text_file(path);
  const std::string svg(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  EXPECT_EQ(between(svg, "<rect class=\"chosen\"", "/>").size(), 1u) << svg;
  EXPECT_NE(svg.find(">cpu.generic</text>"), svg.npos) << svg;
  EXPECT_EQ(svg.find("FA_MAX_ARCH") != svg.npos, table().back() == "cpu.generic" && table().size() > 1) << svg;
}

/// Of a machine with a GPU: a branch for its memory and one for the host's. Names and reasons are text.
TEST(Explain, Branches) {
  const Decision decision = {
      "bf16",
      {{"for tensors that the GPU reaches", {{{"cuda.a", "cuda.b"}, false, "<too & new>"}, {{"cuda.c"}, true, ""}}},
       {"for tensors in memory of the host", {{{"cpu.generic"}, true, ""}}}},
      "cuda.c",
      ""};
  EXPECT_EQ(fa::tool::decision_text(decision),
            "bf16\n"
            "├─ for tensors that the GPU reaches\n"
            "│  ├─ cuda.a                       no: <too & new>\n"
            "│  ├─ cuda.b                       no: likewise\n"
            "│  └─ cuda.c                       chosen\n"
            "└─ for tensors in memory of the host\n"
            "   └─ cpu.generic                  chosen\n");
  const std::string svg = fa::tool::decision_svg(decision);
  EXPECT_NE(svg.find(">cuda.a and 1 more</text>"), svg.npos) << svg;
  EXPECT_NE(svg.find(">&lt;too &amp; new&gt;</text>"), svg.npos) << svg;
  EXPECT_EQ(between(svg, "<rect class=\"chosen\"", "/>").size(), 2u);
  EXPECT_EQ(between(svg, "<text class=\"condition\"", "</text>").size(), 2u);
}

}  // namespace
