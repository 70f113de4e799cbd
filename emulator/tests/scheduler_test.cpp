// Blocks and warps that wait for each other by plain loads or at mbarriers: they get on, and where nothing can, the
// report says so.
#include <gtest/gtest.h>

#include "client.h"

namespace {

using emulated::Array;
using emulated::launch;

/// flags[block]: block b waits until flags[b + 1] is set, the last of `count` does not; then it sets its own. All must
/// be resident at once.
const char *const chain = R"(
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 memory[];
.visible .entry chain(.param .u64 flags, .param .u32 count) {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [flags];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  add.s32 %r3, %r2, 1;
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra set;
wait:
  ld.volatile.global.u32 %r4, [%rd3+4];
  setp.eq.s32 %p2, %r4, 0;
  @%p2 bra wait;
set:
  st.volatile.global.u32 [%rd3], 1;
  ret;
}
.visible .entry warps(.param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  .shared .align 4 .u32 flag;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  st.volatile.shared.u32 [flag], 0;
  bar.sync 0;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra set;
wait:
  ld.volatile.shared.u32 %r2, [flag];
  setp.eq.s32 %p2, %r2, 0;
  @%p2 bra wait;
  bra done;
set:
  mov.u32 %r3, 0;
count:
  add.s32 %r3, %r3, 1;
  setp.lt.u32 %p3, %r3, 200000;
  @%p3 bra count;
  st.volatile.shared.u32 [flag], %r3;
done:
  st.global.u32 [%rd1], 7;
  ret;
}
.visible .entry lanes(.param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra set;
wait:
  ld.volatile.global.u32 %r2, [%rd1];
  setp.eq.s32 %p2, %r2, 0;
  @%p2 bra wait;
  ret;
set:
  st.volatile.global.u32 [%rd1], 5;
  ret;
}
.visible .entry lock(.param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, 0;
wait:
  add.u32 %r1, %r1, 1;
  atom.global.cas.b32 %r2, [%rd1], 0, 1;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra wait;
  ld.volatile.global.u32 %r3, [%rd1+4];
  add.u32 %r3, %r3, 1;
  st.volatile.global.u32 [%rd1+4], %r3;
  st.volatile.global.u32 [%rd1], 0;
  red.global.add.u32 [%rd1+8], %r1;
  ret;
}
.visible .entry arrivals(.param .u64 out, .param .u32 arrives) {
  .reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  .shared .align 8 .b64 barrier;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [arrives];
  mov.u32 %r2, %tid.x;
  setp.ne.u32 %p1, %r2, 0;
  @!%p1 mbarrier.init.shared.b64 [barrier], 1;
  bar.sync 0;
  setp.ge.u32 %p2, %r2, 32;
  @%p2 bra wait;
  mov.u32 %r3, 0;
count:
  add.s32 %r3, %r3, 1;
  setp.lt.u32 %p3, %r3, 200000;
  @%p3 bra count;
  setp.eq.u32 %p4, %r1, 0;
  @%p4 bra done;
  @!%p1 mbarrier.arrive.shared.b64 %rd2, [barrier];
  bra done;
wait:
  mbarrier.test_wait.parity.shared.b64 %p4, [barrier], 0;
  @!%p4 bra wait;
  red.global.add.u32 [%rd1], 1;
done:
  ret;
}
)";

CUfunction kernel_of(const char *name) {
  emulated::start();
  return emulated::kernel(chain, name);
}

TEST(Scheduler, BlocksThatWaitForLaterOnes) {
  CUfunction function = kernel_of("chain");
  for (unsigned blocks : {2u, 9u, 100u}) {
    Array<int> flags(std::vector<int>(blocks + 1));
    ASSERT_EQ(launch(function, {blocks}, {32}, 0, flags.address, blocks), CUDA_SUCCESS);
    for (unsigned b = 0; b < blocks; b++) ASSERT_EQ(flags.values()[b], 1) << b;
  }
}

TEST(Scheduler, WarpsThatWaitForEachOther) {
  CUfunction function = kernel_of("warps");
  Array<int> out(std::vector<int>(1));
  ASSERT_EQ(launch(function, {1}, {64}, 0, out.address), CUDA_SUCCESS);
  EXPECT_EQ(out.values()[0], 7);
}

TEST(Scheduler, LanesThatWaitForEachOther) {
  CUfunction function = kernel_of("lanes");
  Array<int> out(std::vector<int>(1));
  ASSERT_EQ(launch(function, {1}, {32}, 0, out.address), CUDA_SUCCESS);
  EXPECT_EQ(out.values()[0], 5);
}

TEST(Scheduler, WarpsThatWaitAtAnMbarrier) {
  CUfunction function = kernel_of("arrivals");
  Array<int> out(std::vector<int>(1));
  ASSERT_EQ(launch(function, {2}, {384}, 0, out.address, 1), CUDA_SUCCESS);
  EXPECT_EQ(out.values()[0], 2 * (384 - 32));
}

/// cooperative_groups' barrier of all blocks (kernels/cooperative.cu).
TEST(Scheduler, GridsMeet) {
  emulated::start();
  const char *file = emulated::capability() < 80 ? "/cooperative.sm_75.ptx" : "/cooperative.sm_80.ptx";
  CUfunction function = emulated::kernel(emulated::read_file(std::string(TEST_KERNELS) + file), "cooperative");
  for (unsigned blocks : {1u, 7u, 60u}) {
    unsigned rounds = 5, expected = 0;
    Array<unsigned> cells(std::vector<unsigned>(2 * blocks)), sums{std::vector<unsigned>(blocks)};
    void *parameters[] = {&cells.address, &sums.address, &rounds};
    ASSERT_EQ(emulated::call("cuLaunchCooperativeKernel", function, blocks, 1u, 1u, 96u, 1u, 1u, 0u,
                             static_cast<CUstream>(nullptr), static_cast<void **>(parameters)),
              CUDA_SUCCESS);
    ASSERT_EQ(emulated::call("cuCtxSynchronize"), CUDA_SUCCESS);
    for (unsigned round = 0; round < rounds; round++)
      for (unsigned b = 0; b < blocks; b++) expected += round * 1000 + b;
    ASSERT_EQ(sums.values(), std::vector<unsigned>(blocks, expected)) << blocks;
  }
}

/// A lane that has the lock gets on soon: those that spin for it do not hold it up for thousands of turns.
TEST(Scheduler, LanesThatSpinLetOthersRun) {
  CUfunction function = kernel_of("lock");
  Array<unsigned> out(std::vector<unsigned>(3));
  ASSERT_EQ(launch(function, {2}, {64}, 0, out.address), CUDA_SUCCESS);
  EXPECT_EQ(out.values()[0], 0u);
  EXPECT_EQ(out.values()[1], 128u);
  EXPECT_LT(out.values()[2] / 128, 128u * 40) << "turns of a lane";
}

/// Faults end the context, so each has a separate process. count: blocks that the chain has; fewer are launched.
int code_of_chain(unsigned launched, unsigned count, unsigned shared) {
  CUfunction function = kernel_of("chain");
  emulated::call("cuFuncSetAttribute", function, 8, 160 * 1024);
  Array<int> flags(std::vector<int>(count + 1));
  return launch(function, {launched}, {32}, shared, flags.address, count);
}

TEST(Scheduler, AnEndlessSpinIsADeadlock) {
  EXPECT_EXIT(std::_Exit(code_of_chain(3, 9, 0) == CUDA_ERROR_LAUNCH_TIMEOUT ? 0 : 1), testing::ExitedWithCode(0), "");
}

/// Under a seed most turns of such a warp end between two tries: that is no progress.
TEST(Scheduler, AnMbarrierThatNobodyArrivesAtIsADeadlock) {
  auto code = [] {
    CUfunction function = kernel_of("arrivals");
    Array<int> out(std::vector<int>(1));
    return launch(function, {2}, {384}, 0, out.address, 0);
  };
  EXPECT_EXIT(std::_Exit(code() == CUDA_ERROR_LAUNCH_TIMEOUT ? 0 : 1), testing::ExitedWithCode(0), "");
}

/// sm_80 has 108 SMs, and 160 KiB of shared memory let one block live on each.
TEST(Scheduler, MoreBlocksThanFitAreADeadlock) {
  constexpr unsigned fit = 108, shared = 160 * 1024;
  EXPECT_EQ(code_of_chain(fit, fit, shared), CUDA_SUCCESS);
  EXPECT_EXIT(std::_Exit(code_of_chain(fit + 1, fit + 1, shared) == CUDA_ERROR_LAUNCH_TIMEOUT ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

}  // namespace
