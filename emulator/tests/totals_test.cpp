// The line of FA_EMU_TOTALS at the end of a process.
#include <gtest/gtest.h>

#include "ending.h"

namespace {

/// Half of the threads jump over a return.
const std::string text = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry _Z8unrolledPji(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 64;
  @%p1 bra lower;
  ret;
lower:
  ld.param.u64 %rd1, [words];
  st.global.u32 [%rd1], 7;
  ret;
}
)";

std::string totals_of(int launches, unsigned blocks, const char *file = nullptr) {
  char name[] = "/tmp/fa-emu-totals-XXXXXX";
  close(mkstemp(name));
  std::string report =
      emulated::run(text, 0, {{"FA_EMU_TOTALS", file ? file : name}, {"FA_EMU_CHECK", "0"}}, launches, blocks).report;
  std::string lines = emulated::read_file(name);
  std::remove(name);
  return report + lines;
}

TEST(Totals, AreSumsOverTheLaunchesOfAProcess) {
  // 128 threads move and compare, 64 branch, 64 leave at once, 64 load, store and leave; warps branch even where no
  // lane does.
  constexpr int one_block = 128 * 2 + 64 * 2 + 64 * 3, warps = 4 * 3 + 2 + 2 * 3;
  for (auto [launches, blocks] : {std::pair(1, 1u), std::pair(3, 2u)}) {
    const int times = launches * static_cast<int>(blocks);
    const std::string got = totals_of(launches, blocks);
    EXPECT_EQ(emulated::count(got, "\n"), 1u) << got;
    for (const std::string &part : {"\"launches\":" + std::to_string(launches) + ",",
                                    "\"thread_instructions\":" + std::to_string(times * one_block) + ",",
                                    "\"warp_instructions\":" + std::to_string(times * warps) + ",",
                                    std::string("\"check\":0,"), std::string("\"device\":\"sm_80\"")})
      EXPECT_NE(got.find(part), std::string::npos) << part << " is not in " << got;
  }
}

TEST(Totals, OfNoLaunchAreNone) {
  EXPECT_EQ(totals_of(0, 1), "");
}

TEST(Totals, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_EQ(totals_of(1, 1, "/no/such/folder/file"),
            "fa-emu: FA_EMU_TOTALS: '/no/such/folder/file' cannot be written\n");
}

}  // namespace
