// Reports of findings: one a cause, its class and severity, suppressions in a file, the summary and the
// exit status of the process, lines of JSON.
#include <atomic>
#include <thread>

#include "ending.h"
#include "mutant.h"

namespace {

using emulated::count;
using emulated::Ending;
using emulated::run;

/// unrolled: threads of four warps store a word, and read those of all warps in straight-line code without waiting.
/// Fault 0 waits. The loads are of two lines of the source.
const std::string text = R"(
.version 8.0
.target sm_80
.address_size 64
.file 1 "kernels/tile.cuh"
.visible .entry _Z8unrolledPji(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<2>; .reg .b32 %r<20>; .reg .b64 %rd<4>;
  .shared .align 4 .b8 tile[512];
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  and.b32 %r3, %r2, 31;
  shl.b32 %r4, %r3, 2;
  shl.b32 %r5, %r2, 2;
  mov.u32 %r6, tile;
  add.u32 %r4, %r4, %r6;
  add.u32 %r5, %r5, %r6;
  st.shared.u32 [%r5], 0;
  bar.sync 0;
  .loc 1 7 0
  st.shared.u32 [%r5], %r2;
  setp.eq.u32 %p1, %r1, 0;
  @!%p1 bra read;
  bar.sync 0;
read:
  .loc 1 12 0
  ld.shared.u32 %r7, [%r4];
  ld.shared.u32 %r8, [%r4+128];
  .loc 1 13 0
  ld.shared.u32 %r9, [%r4+256];
  ld.shared.u32 %r10, [%r4+384];
  .loc 1 20 0
  add.u32 %r11, %r7, %r8;
  add.u32 %r12, %r9, %r10;
  add.u32 %r11, %r11, %r12;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r11;
  ret;
}
)";

/// Two warps store a word each that all threads name; with fault 1 it is the same one.
const std::string stores = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry _Z8unrolledPji(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
  .shared .align 4 .b8 flag[4];
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [fault];
  mov.u32 %r2, %tid.x;
  shr.u32 %r3, %r2, 5;
  setp.eq.u32 %p1, %r1, 1;
  @%p1 mov.u32 %r3, 1;
  mov.u32 %r4, flag;
  setp.lt.u32 %p2, %r1, 2;
  @%p2 st.shared.u32 [%r4], %r3;
  @!%p2 st.global.u32 [%rd1], 1;
  ret;
}
)";

std::string without_lines(std::string ptx) {
  for (size_t at; (at = ptx.find(".loc")) != std::string::npos;) ptx.replace(at, ptx.find('\n', at) - at, "");
  return ptx;
}

std::string file_of(const std::string &content) {
  std::string name = testing::TempDir() + "fa_emu_findings_" + std::to_string(getpid());
  FILE *file = std::fopen(name.c_str(), "w");
  std::fputs(content.c_str(), file);
  std::fclose(file);
  return name;
}

TEST(Findings, NothingIsSaidOfACleanKernel) {
  Ending end = run(text, 0, {{"FA_EMU_EXIT", "1"}});
  EXPECT_EQ(end.report, "");
  EXPECT_EQ(end.status, 0);
}

TEST(Findings, OneCauseIsOneReport) {
  std::string report = run(without_lines(text), 1).report;
  EXPECT_EQ(count(report, "fa-emu: error (race): "), 1u) << report;
  EXPECT_NE(report.find(" at 5 lines of the PTX ("), std::string::npos) << report;
  EXPECT_NE(report.find("by warps 0-2 of 1 block: (0,0,0)"), std::string::npos) << report;
}

TEST(Findings, LinesOfTheSourceAreCausesOfTheirOwn) {
  std::string report = run(text, 1).report;
  EXPECT_EQ(count(report, "fa-emu: error (race): "), 2u) << report;
  EXPECT_EQ(count(report, "times at 3 lines of the PTX ("), 2u) << report;
  EXPECT_NE(report.find("kernel unrolled(unsigned int*, int): 2 errors"), std::string::npos) << report;
}

TEST(Findings, KernelsHaveTheNamesOfTheSource) {
  std::string report = run(text, 1).report;
  EXPECT_NE(report.find("[kernel unrolled(unsigned int*, int), block"), std::string::npos) << report;
}

TEST(Findings, ALaterLaunchRepeatsNothing) {
  std::string report = run(text, 1, {}, 3).report;
  EXPECT_EQ(count(report, "fa-emu: error (race): "), 2u) << report;
  EXPECT_EQ(count(report, "2 of them already reported for an earlier launch"), 2u) << report;
  EXPECT_NE(report.find("checks: 2 errors in 3 of 3 launches; 0 suppressed"), std::string::npos) << report;
  EXPECT_NE(report.find("in 3 launches: unrolled(unsigned int*, int), kernels/tile.cuh:13"), std::string::npos)
      << report;
}

/// Blocks draw tickets, and the ticket decides which race a block has: findings name blocks by who was first.
const std::string tickets = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry _Z8unrolledPji(.param .u64 words, .param .u32 fault) {
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
  .shared .align 4 .b8 tile[512];
  .shared .align 4 .u32 ticket;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.u32 %r3, %r3, %r2;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra drawn;
  atom.global.add.u32 %r4, [%rd1], 1;
  st.shared.u32 [ticket], %r4;
drawn:
  bar.sync 0;
  ld.shared.u32 %r4, [ticket];
  st.shared.u32 [%r3], %r1;
  and.b32 %r5, %r4, 3;
  setp.ge.u32 %p2, %r5, 2;
  @%p2 bra second;
  ld.shared.u32 %r6, [tile];
  bra done;
second:
  ld.shared.u32 %r6, [tile+256];
done:
  st.global.u32 [%rd1+4], %r6;
  ret;
}
)";

TEST(Findings, TheSameInEveryRun) {
  EXPECT_EQ(run(text, 1).report, run(text, 1).report);
  std::atomic<bool> done{false};
  std::vector<std::thread> busy(6);
  for (std::thread &one : busy)
    one = std::thread([&] {
      while (!done) {
      }
    });
  for (const char *seed : {"0", "7"}) {
    std::string first = run(tickets, 0, {{"FA_EMU_SEED", seed}}, 1, 40).report;
    EXPECT_NE(first.find("fa-emu: error (race): "), std::string::npos) << first;
    for (int i = 0; i < 4; i++) EXPECT_EQ(run(tickets, 0, {{"FA_EMU_SEED", seed}}, 1, 40).report, first);
  }
  done = true;
  for (std::thread &one : busy) one.join();
}

/// A program that ends as soon as it sees the error has the reason all the same.
TEST(Findings, TheReasonComesBeforeTheError) {
  const std::string trap = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry traps() {\ntrap;\n}\n";
  for (int i = 0; i < 20; i++) {
    std::string report = emulated::reported([&] {
      emulated::start();
      emulated::call("cuLaunchKernel", emulated::kernel(trap, "traps"), 1u, 1u, 1u, 32u, 1u, 1u, 0u, CUstream{},
                     static_cast<void **>(nullptr), static_cast<void **>(nullptr));
      while (emulated::call("cuStreamQuery", CUstream{}) == CUDA_ERROR_NOT_READY) {
      }
    });
    ASSERT_NE(report.find("kernel: error 719: trap"), std::string::npos) << report;
  }
}

TEST(Findings, TheExitStatusIsBySeverity) {
  EXPECT_EQ(run(text, 1).status, 0);
  EXPECT_EQ(run(text, 1, {{"FA_EMU_EXIT", "1"}}).status, 10);
  EXPECT_EQ(run(text, 1, {{"FA_EMU_EXIT", "1"}, {"FA_EMU_QUIET", "1"}}).status, 10);
}

/// Fault 1: in shared memory, fault 2: in global memory.
TEST(Findings, EqualValuesAreAWarning) {
  for (int fault : {1, 2}) {
    Ending end = run(stores, fault, {{"FA_EMU_EXIT", "1"}, {"FA_EMU_CHECK", "2"}});
    EXPECT_EQ(count(end.report, "fa-emu: warning (equal-values): writes "), 1u) << end.report;
    EXPECT_NE(end.report.find("; both store the same value"), std::string::npos) << end.report;
    EXPECT_EQ(end.report.find("error"), std::string::npos) << end.report;
    EXPECT_EQ(end.status, 0);
    end = run(stores, fault, {{"FA_EMU_EXIT", "1"}, {"FA_EMU_FAIL_ON", "warning"}});
    EXPECT_EQ(end.status, 11);
    end = run(stores, fault, {{"FA_EMU_CHECK", "2"}, {"FA_EMU_FAIL_ON", "formal"}});
    EXPECT_NE(end.report.find("kernel: error 719: equal-values: writes "), std::string::npos) << end.report;
  }
  Ending end = run(stores, 0, {{"FA_EMU_EXIT", "1"}});
  EXPECT_EQ(count(end.report, "fa-emu: error (race): "), 1u) << end.report;
  EXPECT_EQ(end.status, 10);
}

class Suppressions : public testing::TestWithParam<const char *> {};

TEST_P(Suppressions, LeaveOutWhatTheyMatch) {
  std::string file = file_of("# known\n" + std::string(GetParam()) + "\n");
  Ending end = run(text, 1, {{"FA_EMU_SUPPRESS", file}, {"FA_EMU_EXIT", "1"}});
  std::remove(file.c_str());
  EXPECT_EQ(end.report, "fa-emu: checks: no findings in 0 of 1 launch; 2 suppressed\n");
  EXPECT_EQ(end.status, 0);
}
INSTANTIATE_TEST_SUITE_P(Findings, Suppressions,
                         testing::Values("class:race", "kernel:unrolled*", "kernel:_Z8unrolledPji", "line:1-999",
                                         "source:kernels/tile.cuh:1[23]", "ptx:ld.shared*",
                                         "class:r* kernel:*unrolled* source:*tile* line:20-40 # and why"));

TEST(Findings, SuppressionsThatMatchNothingAreNamed) {
  std::string file = file_of("class:race source:*:12\nclass:unwaited\n");
  Ending end = run(text, 1, {{"FA_EMU_SUPPRESS", file}, {"FA_EMU_EXIT", "1"}});
  std::remove(file.c_str());
  EXPECT_EQ(count(end.report, "fa-emu: error (race): "), 1u) << end.report;
  EXPECT_NE(end.report.find(file + ", line 2: 'class:unwaited' matched nothing"), std::string::npos) << end.report;
  EXPECT_EQ(count(end.report, "matched nothing"), 1u) << end.report;
  EXPECT_EQ(end.status, 10);
}

TEST(Findings, SuppressionsThatMakeNoSenseAreRefused) {
  std::string file = file_of("race\nline:9-1\ncolour:red\n");
  std::string report = run(text, 0, {{"FA_EMU_SUPPRESS", file}}).report;
  std::remove(file.c_str());
  for (const char *word : {"'race' is not a pattern", "'line:9-1' is not a pattern", "'colour:red' is not a pattern"})
    EXPECT_NE(report.find(word), std::string::npos) << report;
  EXPECT_NE(run(text, 0, {{"FA_EMU_SUPPRESS", "/no/such/file"}}).report.find("'/no/such/file' cannot be read"),
            std::string::npos);
  EXPECT_NE(run(text, 0, {{"FA_EMU_FAIL_ON", "notes"}}).report.find("FA_EMU_FAIL_ON=notes is not a severity"),
            std::string::npos);
}

TEST(Findings, JsonHasClassSeverityAndCount) {
  std::string file = file_of("");
  run(text, 1, {{"FA_EMU_JSON", file}});
  std::string line = emulated::read_file(file);
  std::remove(file.c_str());
  for (const char *part :
       {"\"kernel\":\"_Z8unrolledPji\",\"name\":\"unrolled(unsigned int*, int)\"", "\"class\":\"race\"",
        "\"severity\":\"error\"", "\"count\":", "\"blocks\":1,\"warps\":[0,1,2],\"ptx_lines\":[", "\"suppressed\":0"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " is not in " << line;
}

std::string changed(std::string ptx, const std::string &from, const std::string &to) {
  return ptx.replace(ptx.find(from), from.size(), to);
}

TEST(NewerPtx, IsRefusedWithWhatWouldWork) {
  const std::string newer = changed(text, ".version 8.0", ".version 9.4");
  std::string report = run(newer, 0).report;
  EXPECT_NE(
      report.find("error 222: PTX 9.4 is newer than PTX 9.0, the newest of a driver for CUDA 13.0: compile with the "
                  "nvcc of CUDA 13.0 or older, or set FA_EMU_DRIVER=13040 to try it anyway"),
      std::string::npos)
      << report;
  // Also where the text has directives that only newer parsers know.
  report = run(newer + ".newdirective 1;\n", 0).report;
  EXPECT_NE(report.find("error 222: PTX 9.4 is newer"), std::string::npos) << report;
  EXPECT_EQ(run(newer, 0, {{"FA_EMU_DRIVER", "13040"}}).report, "");
  report = run(changed(newer, "setp.eq.u32", "frobnicate.u32"), 0, {{"FA_EMU_DRIVER", "13040"}}).report;
  EXPECT_NE(report.find("no instruction that the emulator knows: frobnicate.u32"), std::string::npos) << report;
  EXPECT_NE(report.find(
                "; the text is PTX 9.4, and the instructions known here are those of PTX 9.0, as emitted by nvcc 13.0"),
            std::string::npos)
      << report;
}

}  // namespace
