// The counts of FA_EMU_JSON for a launch, against counts made by hand.
#include "launch_line.h"
#include "tensor_attention.h"

namespace {

using emulated::line_of;
using emulated::value_of;

/// One warp. Global memory: 32 neighbouring words (128 bytes, 4 sectors), words 32 bytes apart (32 sectors), 16
/// neighbouring bytes a lane written (512 bytes, 16 sectors). Shared memory, in passes: neighbouring words written (1),
/// words 8 bytes apart (2, as every other bank has two), words 128 bytes apart (32, all in one bank), 16 bytes a lane
/// (4, and no fewer are possible). One product of 16 x 8 x 16, one barrier.
const char *const text = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry counted(.param .u64 words) {
  .reg .b32 %r<24>; .reg .b64 %rd<9>; .reg .f32 %f<5>;
  .shared .align 16 .b8 tile[4096];
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  mul.wide.u32 %rd4, %r1, 32;
  add.s64 %rd5, %rd1, %rd4;
  ld.global.u32 %r3, [%rd5];
  mul.wide.u32 %rd6, %r1, 16;
  add.s64 %rd7, %rd1, %rd6;
  st.global.v4.u32 [%rd7], {%r2, %r3, %r2, %r3};
  mov.u32 %r4, tile;
  mad.lo.u32 %r5, %r1, 4, %r4;
  st.shared.u32 [%r5], %r2;
  bar.sync 0;
  mad.lo.u32 %r6, %r1, 8, %r4;
  ld.shared.u32 %r7, [%r6];
  mad.lo.u32 %r8, %r1, 128, %r4;
  ld.shared.u32 %r9, [%r8];
  mad.lo.u32 %r10, %r1, 16, %r4;
  ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r10];
  mov.f32 %f1, 0f00000000;
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r2, %r2, %r2, %r2}, {%r2, %r2}, {%f1, %f1, %f1, %f1};
  ret;
}
)";

/// One warp, five turns. To the L2 and back: an atom, an acquire load, and in one turn another atom. A release in the
/// red, and a fence. Shared memory and other scopes do not count.
const char *const synchronising = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry synchronises(.param .u64 words) {
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
  .shared .align 4 .u32 flag;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, 0;
  ld.relaxed.gpu.global.u32 %r2, [%rd1];
turn:
  setp.eq.u32 %p2, %r1, 2;
  @%p2 atom.global.exch.b32 %r7, [%rd1], 0;
  atom.global.add.u32 %r3, [%rd1], 1;
  ld.acquire.gpu.global.u32 %r4, [%rd1];
  atom.shared.add.u32 %r5, [flag], 1;
  ld.volatile.shared.u32 %r6, [flag];
  fence.acq_rel.cta;
  fence.acq_rel.gpu;
  red.release.gpu.global.add.u32 [%rd1+4], 1;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p1, %r1, 5;
  @%p1 bra turn;
  membar.sys;
  ret;
}
.visible .entry polls(.param .u64 words) {
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %ctaid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra late;
wait:
  ld.acquire.gpu.global.u32 %r2, [%rd1];
  setp.eq.u32 %p2, %r2, 0;
  @%p2 bra wait;
  ret;
late:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 20000;
  @%p2 bra late;
  st.release.gpu.global.u32 [%rd1], 1;
  ret;
}
)";

TEST(Counters, Traffic) {
  std::string line = line_of([] {
    emulated::start();
    emulated::Array<int> words(std::vector<int>(256));
    emulated::launch(emulated::kernel(text, "counted"), {1}, {32}, 0, words.address);
  });
  EXPECT_EQ(value_of(line, "global_bytes_read"), 128 + 128);
  EXPECT_EQ(value_of(line, "global_bytes_written"), 512);
  EXPECT_NEAR(value_of(line, "sectors_per_request"), (4 + 32 + 16) / 3.0, 1e-5);
  EXPECT_EQ(value_of(line, "shared_bytes_read"), 128 + 128 + 512);
  EXPECT_EQ(value_of(line, "shared_bytes_written"), 128);
  EXPECT_NEAR(value_of(line, "bank_conflict_factor"), (1 + 2 + 32 + 4) / (1 + 1 + 1 + 4.0), 1e-5);
  EXPECT_EQ(value_of(line, "barriers"), 1);
  EXPECT_EQ(value_of(line, "tensor_operations"), 2 * 16 * 8 * 16);
  EXPECT_EQ(value_of(line, "warp_instructions"), 24);
  EXPECT_EQ(value_of(line, "thread_instructions"), 24 * 32);
}

TEST(Counters, RoundTripsAndFences) {
  std::string line = line_of([] {
    emulated::start();
    emulated::Array<int> words(std::vector<int>(2));
    emulated::launch(emulated::kernel(synchronising, "synchronises"), {2}, {32}, 0, words.address);
  });
  EXPECT_EQ(value_of(line, "l2_round_trips"), 2 * (1 + 5 + 5 + 1));
  EXPECT_EQ(value_of(line, "l2_reductions"), 2 * 5);
  EXPECT_EQ(value_of(line, "fences"), 2 * (5 + 5 + 1));
  EXPECT_EQ(value_of(line, "polls"), 0);
  const std::string acquire = line.substr(line.find("\"ptx\":\"ld.acquire.gpu.global.u32\""));
  EXPECT_EQ(value_of(acquire, "warps"), 2 * 5);
  EXPECT_EQ(acquire.find("\"loop\":[12,23]"), acquire.find("\"loop\":")) << acquire;
  EXPECT_EQ(value_of(acquire, "per_iteration"), 1);
}

/// The waiting block has its turns as often as the other one where multiprocessors run side by side.
TEST(Counters, Polls) {
  std::string line = line_of([] {
    setenv("FA_EMU_DEVICE", "sm_80:sms=2:paced", 1);
    setenv("FA_EMU_SEED", "0", 1);
    emulated::start();
    emulated::Array<int> words(std::vector<int>(2));
    emulated::launch(emulated::kernel(synchronising, "polls"), {2}, {32}, 0, words.address);
  });
  EXPECT_GT(value_of(line, "polls"), 50);
  EXPECT_EQ(value_of(line, "fences"), 1);
  EXPECT_EQ(value_of(line, "l2_round_trips"), value_of(line, "polls") + 1);
}

/// Two products of rows x keys x head size, on wgmma or tcgen05.
TEST(Counters, TensorOperations) {
  constexpr int rows = 128, keys = 192;
  std::string line = line_of([] { emulated::attention::error(TEST_KERNELS, rows, keys, 1); });
  EXPECT_EQ(value_of(line, "tensor_operations"), 2.0 * 2 * rows * keys * emulated::attention::head_size);
}

}  // namespace
