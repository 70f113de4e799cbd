// Multiprocessors that are taken or slow: where blocks go, the loss of a persistent kernel by a stride and by tickets,
// and that blocks which need one another all at once do not get there.
#include "launch_line.h"

namespace {

using emulated::Array;
using emulated::launch;
using emulated::line_of;
using emulated::value_of;

/// persistent: blocks take works by a stride or, where dynamic, by tickets from words[0]; work i takes 20,000 turns of
/// a loop and counts in words[1 + i]. places: words[smid] counts blocks. meets: each block waits for all of the grid.
const char *const text = R"(
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 memory[];
.visible .entry persistent(.param .u64 words, .param .u32 works, .param .u32 dynamic) {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  ld.param.u32 %r1, [works];
  ld.param.u32 %r5, [dynamic];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  setp.ne.u32 %p1, %r5, 0;
next:
  @%p1 atom.global.add.u32 %r2, [%rd1], 1;
  setp.ge.u32 %p2, %r2, %r1;
  @%p2 bra done;
  mov.u32 %r4, 0;
turn:
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p3, %r4, 20000;
  @%p3 bra turn;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  red.global.add.u32 [%rd3+4], 1;
  add.u32 %r2, %r2, %r3;
  bra next;
done:
  ret;
}
.visible .entry places(.param .u64 words) {
  .reg .b32 %r<3>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %smid;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  red.global.add.u32 [%rd3], 1;
  ret;
}
.visible .entry meets(.param .u64 words) {
  .reg .pred %p1; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %nctaid.x;
  red.global.add.u32 [%rd1], 1;
wait:
  ld.volatile.global.u32 %r2, [%rd1];
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra wait;
  ret;
}
)";

constexpr unsigned whole = 160 * 1024;  // shared memory by which a multiprocessor holds one block

/// In a separate process.
void start_as(const std::string &device) {
  setenv("FA_EMU_DEVICE", device.c_str(), 1);
  emulated::start();
}

CUfunction kernel_of(const char *name) {
  CUfunction function = emulated::kernel(text, name);
  emulated::call("cuFuncSetAttribute", function, 8, static_cast<int>(whole));
  return function;
}

/// How many times later than with even shares the last block ends, of 16 works for a block a multiprocessor.
double unevenness(const std::string &device, bool tickets) {
  constexpr unsigned works = 16, blocks = 4;
  const std::string line = line_of([&] {
    start_as(device);
    Array<unsigned> words(std::vector<unsigned>(works + 1));
    const unsigned dynamic = tickets;
    if (launch(kernel_of("persistent"), {blocks}, {1}, whole, words.address, works, dynamic) != CUDA_SUCCESS)
      std::fputs("it fails\n", stderr);
    std::vector<unsigned> counts = words.values();
    counts.erase(counts.begin());
    if (counts != std::vector<unsigned>(works, 1)) std::fputs("some work is not done once\n", stderr);
  });
  return value_of(line, "end") / value_of(line, "even");
}

TEST(Multiprocessors, APersistentGridOnThoseThatAreAlike) {
  for (const bool tickets : {false, true}) EXPECT_NEAR(unevenness("sm_80:sms=4:paced", tickets), 1, 0.01) << tickets;
}

/// A quarter of the works begins when the others are done: 8 rounds in place of 16 / 3. By tickets the third one ends
/// late by less than a work.
TEST(Multiprocessors, AStrideLosesByOneThatIsTaken) {
  EXPECT_NEAR(unevenness("sm_80:sms=4:taken=1", false), 8 / (16 / 3.0), 0.01);
  EXPECT_NEAR(unevenness("sm_80:sms=4:taken=1", true), 6 / (16 / 3.0), 0.02);
}

/// It does its four works in the time of eight: 16 / 3.5 is even.
TEST(Multiprocessors, AStrideLosesByOneThatIsSlow) {
  EXPECT_NEAR(unevenness("sm_80:sms=4:slow=1", false), 8 / (16 / 3.5), 0.01);
  EXPECT_LT(unevenness("sm_80:sms=4:slow=1", true), 6.2 / (16 / 3.5));
}

TEST(Multiprocessors, NoBlockGetsToThoseThatAreTaken) {
  line_of([] {
    start_as("sm_80:sms=4:taken=2");
    Array<unsigned> words(std::vector<unsigned>(4));
    launch(kernel_of("places"), {10}, {1}, whole, words.address);
    if (words.values() != std::vector<unsigned>{5, 5, 0, 0}) std::fputs("they get elsewhere\n", stderr);
  });
}

/// All four blocks, or the grid of as many as the device says it holds, are never there at once.
TEST(Multiprocessors, BlocksThatWaitForAllAreADeadlockWhereSomeAreTaken) {
  for (const auto &[device, code] :
       {std::pair("sm_80:sms=4:paced", CUDA_SUCCESS), std::pair("sm_80:sms=4:slow=2", CUDA_SUCCESS),
        std::pair("sm_80:sms=4:taken=1", CUDA_ERROR_LAUNCH_TIMEOUT)})
    EXPECT_EXIT(
        {
          setenv("FA_EMU_QUIET", "1", 1);
          start_as(device);
          Array<unsigned> words(std::vector<unsigned>(1));
          std::_Exit(launch(kernel_of("meets"), {4}, {1}, whole, words.address) == code ? 0 : 1);
        },
        testing::ExitedWithCode(0), "")
        << device;
}

}  // namespace
