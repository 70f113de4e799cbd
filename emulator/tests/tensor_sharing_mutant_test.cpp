// Tensor memory that the blocks of a multiprocessor share: small kernels with a fault by number. 0 is the clean twin.
#include "driver/cuda_structs.h"
#include "mutant.h"

namespace {

using emulated::expect_report;
using emulated::launch;

/// shares: a warp that allocates columns, computes for a while, and counts its block. Faults: 1 it does not give them
/// back, 2 it has allocated half of them and asks for the other half while it has these, 3, no fault: another warp of
/// the block gives them back. primary, secondary: all columns, before or, fault 1, behind the trigger; the secondary
/// has them when it waits for the primary.
const char *const text = R"(
.version 8.7
.target sm_100a
.address_size 64
.visible .entry shares(.param .u64 out, .param .u32 columns, .param .u32 fault) {
  .reg .pred %p<6>; .reg .b32 %r<12>; .reg .b64 %rd<2>;
  .shared .b32 where[2];
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [columns];
  ld.param.u32 %r2, [fault];
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, where;
  setp.ge.u32 %p1, %r3, 32;
  setp.eq.u32 %p2, %r3, 0;
  setp.eq.u32 %p3, %r2, 2;
  @%p1 bra allocated;
  @%p3 shr.u32 %r1, %r1, 1;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], %r1;
  mov.u32 %r5, 0;
turn:
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p4, %r5, 20000;
  @%p4 bra turn;
  @!%p3 bra allocated;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4+4], %r1;
  ld.shared.u32 %r6, [%r4+4];
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, %r1;
allocated:
  bar.sync 0;
  ld.shared.u32 %r7, [%r4];
  @%p2 red.global.add.u32 [%rd1], 1;
  setp.eq.u32 %p5, %r2, 1;
  @%p5 bra done;
  setp.eq.u32 %p5, %r2, 3;
  @%p5 bra other;
  @%p1 bra done;
  bra give;
other:
  @!%p1 bra done;
give:
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, %r1;
done:
  ret;
}
.visible .entry primary(.param .u64 out, .param .u32 fault) {
  .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
  .shared .b32 where;
  ld.param.u32 %r1, [fault];
  setp.eq.u32 %p1, %r1, 1;
  mov.u32 %r2, where;
  @!%p1 bra allocate;
  griddepcontrol.launch_dependents;
allocate:
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 512;
  @%p1 bra triggered;
  griddepcontrol.launch_dependents;
triggered:
  bar.sync 0;
  ld.shared.u32 %r3, [%r2];
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 512;
  ret;
}
.visible .entry secondary(.param .u64 out) {
  .reg .b32 %r<4>;
  .shared .b32 where;
  mov.u32 %r2, where;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 512;
  griddepcontrol.wait;
  bar.sync 0;
  ld.shared.u32 %r3, [%r2];
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 512;
  ret;
}
)";

/// The report of four blocks of two warps on one multiprocessor, which run side by side.
std::string shares(int columns, int fault) {
  return emulated::reported([&] {
    setenv("FA_EMU_DEVICE", "sm_100a:sms=1:paced", 1);
    emulated::start();
    emulated::Array<unsigned> words(std::vector<unsigned>(1));
    launch(emulated::kernel(text, "shares"), {4}, {64}, 0, words.address, columns, fault);
    if (fault != 1 && fault != 2 && words.values()[0] != 4) std::fputs("some blocks do not run\n", stderr);
  });
}

TEST(TensorSharing, CleanTwin) {
  for (const int columns : {64, 256, 512}) EXPECT_EQ(shares(columns, 0), "") << columns;
}

TEST(TensorSharing, AnotherWarpGivesThemBackWhichIsClean) {
  EXPECT_EQ(shares(512, 3), "");
}

TEST(TensorSharing, NotGivenBack) {
  const std::string report = shares(512, 1);
  expect_report(report, "waits for 512 columns of tensor memory of multiprocessor 0, of which block (");
  expect_report(report, " of launch 1, shares ended with 0 to 511");
}

TEST(TensorSharing, NotGivenBackToTheNextLaunch) {
  const std::string report = emulated::reported([] {
    setenv("FA_EMU_DEVICE", "sm_100a:sms=1", 1);
    setenv("FA_EMU_CHECK", "0", 1);
    emulated::start();
    emulated::Array<unsigned> words(std::vector<unsigned>(1));
    CUfunction kernel = emulated::kernel(text, "shares");
    if (launch(kernel, {1}, {64}, 0, words.address, 256, 1) != CUDA_SUCCESS)
      std::fputs("the first one fails\n", stderr);
    if (launch(kernel, {1}, {64}, 0, words.address, 256, 0) != CUDA_SUCCESS) std::fputs("so does one of 256\n", stderr);
    launch(kernel, {1}, {64}, 0, words.address, 512, 0);
  });
  expect_report(report,
                "block (0,0,0) of launch 3, shares waits for 512 columns of tensor memory of multiprocessor 0, "
                "of which block (0,0,0) of launch 1, shares ended with 0 to 255");
  EXPECT_FALSE(emulated::mentions(report, "the first one fails|so does one")) << report;
}

TEST(TensorSharing, AskingForMoreWhileHoldingSome) {
  const std::string report = shares(512, 2);
  expect_report(report, "waits for 256 columns of tensor memory of multiprocessor 0, of which block (");
  expect_report(report, " has 0 to 255, and block (");
}

/// A dependent on the same multiprocessor. in_order: without the test's seed, under which the primary may be first.
std::string dependent(int fault, bool in_order) {
  return emulated::reported([&] {
    setenv("FA_EMU_DEVICE", "sm_100a:sms=1", 1);
    if (in_order) setenv("FA_EMU_SEED", "0", 1);
    emulated::start();
    emulated::Array<unsigned> words(std::vector<unsigned>(1));
    CUstream stream = nullptr;
    emulated::call("cuStreamCreate", &stream, 1u);
    CudaLaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.number = 1;
    void *parameters[] = {&words.address, &fault};
    for (const char *name : {"primary", "secondary"}) {
      CudaLaunchConfig config = {{1, 1, 1}, {32, 1, 1}, 0, stream, &attribute, name[0] == 's' ? 1u : 0u};
      emulated::call("cuLaunchKernelEx", static_cast<const CudaLaunchConfig *>(&config), emulated::kernel(text, name),
                     static_cast<void **>(parameters), static_cast<void **>(nullptr));
    }
    emulated::call("cuStreamSynchronize", stream);
  });
}

TEST(TensorSharing, CleanTwinOfADependent) {
  EXPECT_EQ(dependent(0, false), "");
}

TEST(TensorSharing, DependentsStartBeforeThePrimaryAllocates) {
  expect_report(
      dependent(1, true),
      "block (0,0,0) of launch 1, primary waits for 512 columns of tensor memory of multiprocessor 0, of which "
      "block (0,0,0) of launch 2, secondary has 0 to 511");
}

}  // namespace
