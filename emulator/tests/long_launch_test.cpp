// Launches that do not end: a time limit, lines on the way, and SIGINT.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "mutant.h"

namespace {

using emulated::Array;
using emulated::launch;

/// endless: a loop that counts, so that nothing recognises it as a wait; warp 0 leaves it to wait at a barrier.
/// brief: stores.
const std::string text = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry _Z7endlessPj(.param .u64 words) {
  .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bra wait;
again:
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd1], %r2;
  bra again;
wait:
  bar.sync 0;
  ret;
}
.visible .entry brief(.param .u64 words) {
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [words];
  st.global.u32 [%rd1], 1;
  ret;
}
)";

/// The first block takes all others out of the grid, and goes on for ever.
const std::string takes_all = R"(
.version 8.7
.target sm_100a
.address_size 64
.visible .entry taker(.param .u64 words) {
  .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .b128 %q<2>;
  .shared .align 16 .b8 response[16]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 ret;
  mov.u32 %r2, 0;
  mov.u32 %r3, 0;
  mbarrier.init.shared.b64 [bar], 1;
request:
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [bar];
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
wait:
  mbarrier.try_wait.parity.shared.b64 %p1, [bar], %r2;
  @!%p1 bra wait;
  ld.shared.b128 %q1, [response];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q1;
  xor.b32 %r2, %r2, 1;
  @%p2 bra request;
again:
  add.u32 %r3, %r3, 1;
  st.global.u32 [%rd1], %r3;
  bra again;
}
)";

constexpr unsigned endlessly_many = 0x7fffffff;

int run(const char *kernel, unsigned blocks, const std::string &ptx = text) {
  emulated::start();
  Array<unsigned> words(std::vector<unsigned>(128));
  return launch(emulated::kernel(ptx, kernel), {blocks}, {96}, 0, words.address);
}

struct Ended {
  std::string report;
  double seconds;
};

Ended timed(const char *variable, const char *value, const char *kernel, unsigned blocks, const char *limit = "1") {
  auto begin = std::chrono::steady_clock::now();
  std::string report = emulated::reported([&] {
    setenv(variable, value, 1);
    setenv("FA_EMU_TIMEOUT", limit, 1);
    std::fprintf(stderr, "code %d\n", run(kernel, blocks));
  });
  return {report, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

TEST(LongLaunch, AnEndlessLoopEndsInTime) {
  for (const char *checks : {"0", "1"}) {
    Ended end = timed("FA_EMU_CHECK", checks, "_Z7endlessPj", 2);
    EXPECT_NE(end.report.find("code 702"), std::string::npos) << end.report;  // CUDA_ERROR_LAUNCH_TIMEOUT
    EXPECT_NE(end.report.find("launch timeout: it ran longer than FA_EMU_TIMEOUT (1 s); 0 of 2 blocks had finished"),
              std::string::npos)
        << end.report;
    EXPECT_NE(end.report.find("warp 0 waits at line 17 (bar.sync)"), std::string::npos) << end.report;
    EXPECT_NE(end.report.find("[kernel endless(unsigned int*)]"), std::string::npos) << end.report;
    EXPECT_LT(end.seconds, 30);
  }
}

TEST(LongLaunch, TooManyBlocksEndInTime) {
  Ended end = timed("FA_EMU_QUIET", "0", "brief", endlessly_many);
  EXPECT_NE(end.report.find("code 702"), std::string::npos) << end.report;
  EXPECT_NE(end.report.find(" of 2147483647 blocks had finished"), std::string::npos) << end.report;
}

TEST(LongLaunch, ABriefOneIsInTime) {
  Ended end = timed("FA_EMU_PROGRESS", "1", "brief", 4);
  EXPECT_EQ(end.report, "code 0\n");
}

TEST(LongLaunch, SaysHowFarItIs) {
  Ended end = timed("FA_EMU_PROGRESS", "0.2", "brief", endlessly_many, "5");
  EXPECT_NE(end.report.find("fa-emu: kernel brief: "), std::string::npos) << end.report;
  EXPECT_NE(end.report.find(" of 2147483647 blocks done, "), std::string::npos) << end.report;
  // Several lines, the first one long before the end.
  size_t first = end.report.find(" warp instructions, ");
  ASSERT_NE(first, std::string::npos) << end.report;
  EXPECT_LT(std::strtod(end.report.c_str() + first + std::strlen(" warp instructions, "), nullptr), 2.5) << end.report;
}

TEST(LongLaunch, BlocksTakenOutOfTheGridAreDone) {
  std::string report = emulated::reported([&] {
    setenv("FA_EMU_DEVICE", "sm_100a", 1);
    setenv("FA_EMU_THREADS", "1", 1);
    setenv("FA_EMU_TIMEOUT", "1", 1);
    setenv("FA_EMU_PROGRESS", "0.3", 1);
    run("taker", 5, takes_all);
  });
  EXPECT_NE(report.find("fa-emu: kernel taker: 4 of 5 blocks done, 1 running"), std::string::npos) << report;
  EXPECT_NE(report.find("; 4 of 5 blocks had finished"), std::string::npos) << report;
}

TEST(LongLaunch, LimitsThatMakeNoSenseAreRefused) {
  std::string report = timed("FA_EMU_PROGRESS", "often", "brief", 1).report;
  EXPECT_NE(report.find("FA_EMU_PROGRESS=often is not a number of seconds"), std::string::npos) << report;
}

/// Runs the kernel in a process that gets SIGINT once a line says that it is under way; status: as of waitpid. A
/// handler in the program counts signals; the second one ends the program with 7.
std::string interrupted(int &status, bool with_handler) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    if (with_handler)
      signal(SIGINT, [](int) {
        static std::atomic<int> signals{0};
        if (++signals == 2) _exit(7);
      });
    setenv("FA_EMU_PROGRESS", "0.1", 1);
    setenv("FA_EMU_TIMEOUT", "60", 1);
    run("_Z7endlessPj", 2);
    std::_Exit(1);
  }
  close(ends[1]);
  std::string report;
  char part[4096];
  int sent = 0;
  for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;) {
    report.append(part, static_cast<size_t>(got));
    // The second signal waits for a line of progress behind the report of the first one.
    size_t from = sent ? report.find("fa-emu: interrupted: ") : 0;
    bool goes_on = from != std::string::npos && report.find("fa-emu: kernel endless", from) != std::string::npos;
    if (goes_on && sent < (with_handler ? 2 : 1)) sent += kill(child, SIGINT) == 0;
  }
  close(ends[0]);
  waitpid(child, &status, 0);
  return report;
}

TEST(LongLaunch, SigintSaysWhereWarpsAreAndEndsTheProgram) {
  int status = 0;
  std::string report = interrupted(status, false);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status << report;
  EXPECT_NE(report.find("fa-emu: interrupted: kernel endless(unsigned int*): 0 of 2 blocks done"), std::string::npos)
      << report;
  EXPECT_NE(report.find("warp 0 waits at line 17 (bar.sync)"), std::string::npos) << report;
}

TEST(LongLaunch, AHandlerOfTheProgramsIsCalledAndTheKernelGoesOn) {
  int status = 0;
  std::string report = interrupted(status, true);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status << report;
  size_t first = report.find("fa-emu: interrupted: kernel endless(unsigned int*): 0 of 2 blocks done");
  ASSERT_NE(first, std::string::npos) << report;
  EXPECT_NE(report.find("warp 0 waits at line 17 (bar.sync)", first), std::string::npos) << report;
  EXPECT_NE(report.find("fa-emu: kernel endless", first), std::string::npos) << report;
}

}  // namespace
