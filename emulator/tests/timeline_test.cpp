// A timeline: barriers take the time until the last warp is there, copies last until something waits for them. The
// picture of the file is tools/timeline's part (timeline_picture.py).
#include "mutant.h"

namespace {

using emulated::Array;
using emulated::launch;

/// Warp 1 computes for longer than warp 0, which waits for it at a barrier and then for its own copy.
const std::string text = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry waits(.param .u64 words, .param .u32 count) {
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
  .shared .align 16 .b8 tile[16];
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, tile;
  setp.ne.u32 %p1, %r2, 0;
  @!%p1 cp.async.cg.shared.global [%r3], [%rd1], 16;
  cp.async.commit_group;
  setp.lt.u32 %p1, %r2, 32;
  @%p1 bra meet;
  mov.u32 %r4, 0;
again:
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p2, %r4, %r1;
  @%p2 bra again;
meet:
  bar.sync 0;
  cp.async.wait_group 0;
  ret;
}
.visible .entry alternates(.param .u64 words, .param .u32 count) {
  .reg .pred %p1; .reg .b32 %r<3>;
  .shared .align 4 .b8 tile[4];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, 0;
again:
  st.volatile.shared.u32 [tile], %r2;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra again;
  ret;
}
)";

/// Three tiles of two turns of two products, with other instructions between these and between tiles.
const std::string tiles = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry tiles() {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .f32 %f<9>;
  mov.u32 %r1, 0;
  mov.f32 %f1, 0f00000000;
tile:
  mov.u32 %r2, 0;
turn:
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r8, %r8, %r8, %r8}, {%r8, %r8}, {%f1, %f1, %f1, %f1};
  add.u32 %r3, %r2, 1;
  add.u32 %r4, %r2, 1;
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5, %f6, %f7, %f8}, {%r8, %r8, %r8, %r8}, {%r8, %r8}, {%f1, %f1, %f1, %f1};
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 2;
  @%p1 bra turn;
  mov.u32 %r5, 0;
store:
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p2, %r5, 40;
  @%p2 bra store;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p3, %r1, 3;
  @%p3 bra tile;
  ret;
}
)";

/// said: the output on stderr.
std::string trace(const char *checks, int launches, const char *kernel = "waits", int count = 100,
                  const std::string &said = "") {
  std::string name = testing::TempDir() + "fa_emu_timeline_" + std::to_string(getpid()) + ".json";
  std::string report = emulated::reported([&] {
    setenv("FA_EMU_TIMELINE", name.c_str(), 1);
    setenv("FA_EMU_CHECK", checks, 1);
    emulated::start();
    Array<unsigned> words(std::vector<unsigned>(128));
    CUfunction function = emulated::kernel(text, kernel);
    for (int i = 0; i < launches; i++) launch(function, {2}, {64}, 0, words.address, count);
  });
  EXPECT_EQ(report, said);
  std::string result = emulated::read_file(name);
  std::remove(name.c_str());
  return result;
}

/// The number behind a field in the first event behind a part.
uint64_t field(const std::string &json, const std::string &part, const std::string &name) {
  size_t at = json.find("\"" + name + "\":", json.find(part));
  return at == std::string::npos ? 0 : std::strtoull(json.c_str() + at + name.size() + 3, nullptr, 10);
}

TEST(Timeline, WarpsWaitForTheLastOne) {
  for (const char *checks : {"0", "1"}) {
    std::string json = trace(checks, 1);
    const std::string wait = "\"name\":\"bar.sync\",\"cat\":\"wait\",\"pid\":1,\"tid\":0,\"ph\":\"X\"";
    ASSERT_NE(json.find(wait), std::string::npos) << json;
    EXPECT_LT(field(json, wait, "ts"), 20u) << json;
    EXPECT_GT(field(json, wait, "dur"), 290u) << json;
    EXPECT_EQ(json.substr(json.size() - 4), "\n]}\n");
  }
}

TEST(Timeline, CopiesLastUntilSomethingWaits) {
  std::string json = trace("0", 1);
  const std::string copy = "\"name\":\"cp.async.cg.shared.global\",\"cat\":\"copy\",\"pid\":1,\"tid\":0,\"id\":";
  size_t begin = json.find(copy), end = json.find(copy, begin + 1);
  ASSERT_NE(end, std::string::npos) << json;
  EXPECT_GT(field(json.substr(end), "", "ts"), field(json.substr(begin), "", "ts") + 290) << json;
}

TEST(Timeline, ADocumentForAllLaunches) {
  std::string json = trace("0", 3);
  EXPECT_NE(json.find("\"name\":\"waits, launch 3, block [1,0,0]\""), std::string::npos) << json;
  EXPECT_EQ(json.find("\n]}\n"), json.size() - 4);
}

/// Each of two warps has two spans a turn, of the store and of other instructions, and two before.
TEST(Timeline, WhatIsLeftOutIsCounted) {
  constexpr int turns = 10000, limit = 20000, blocks = 2;
  trace("0", 1, "alternates", turns,
        "fa-emu: FA_EMU_TIMELINE: kernel alternates: " + std::to_string(blocks * (2 * (2 * turns + 2) - limit)) +
            " spans are left out, of blocks with more than " + std::to_string(limit) + "\n");
}

/// Writes the trace for timeline_gaps.py.
TEST(Timeline, GapsBetweenTiles) {
  const char *name = std::getenv("TEST_TRACE");
  if (!name) GTEST_SKIP() << "timeline_gaps.py runs it";
  EXPECT_EQ(emulated::reported([&] {
              setenv("FA_EMU_TIMELINE", name, 1);
              emulated::start();
              launch(emulated::kernel(tiles, "tiles"), {1}, {32}, 0);
            }),
            "");
}

TEST(Timeline, TheSameInEveryRun) {
  EXPECT_EQ(trace("0", 2), trace("0", 2));
}

}  // namespace
