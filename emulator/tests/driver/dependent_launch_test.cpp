// Programmatic dependent launch: a dependent starts when all blocks of the kernel before it have triggered or ended,
// and sees its results only behind griddepcontrol.wait.
#include "fixture.h"

namespace {

using namespace emulated;

/// primary: out = in + 1 behind the trigger; secondary: its reads of `from` before and behind its wait.
const char *const dependent_ptx = R"(
.version 7.8
.target sm_90
.address_size 64
.visible .entry primary(.param .u64 in, .param .u64 out, .param .u32 triggers)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<3>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u32 %r3, [triggers];
  mov.u32 %r1, %ctaid.x;
  setp.ge.u32 %p1, %r1, %r3;
  @%p1 bra behind;
  griddepcontrol.launch_dependents;
behind:
  ld.global.u32 %r2, [%rd1];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd2], %r2;
  ret;
}
.visible .entry secondary(.param .u64 from, .param .u64 early, .param .u64 late)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [early];
  ld.param.u64 %rd3, [late];
  griddepcontrol.launch_dependents;
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd2], %r1;
  griddepcontrol.wait;
  ld.global.u32 %r2, [%rd1];
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

struct Launcher {
  CUstream stream;
  template <class... Parameters>
  CUresult operator()(const char *name, unsigned blocks, bool programmatic, Parameters... parameters) const {
    static const CUmodule module = load(dependent_ptx);
    CUfunction function = nullptr;
    EXPECT_EQ(call("cuModuleGetFunction", &function, module, name), CUDA_SUCCESS);
    void *pointers[] = {&parameters...};
    CudaLaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.number = programmatic;
    CudaLaunchConfig config = {{blocks, 1, 1}, {32, 1, 1}, 0, stream, &attribute, 1};
    return call("cuLaunchKernelEx", static_cast<const CudaLaunchConfig *>(&config), function,
                static_cast<void **>(pointers), static_cast<void **>(nullptr));
  }
};

/// Cells: 0 the primary's source, 1 its result, 2 and 3 the secondary's early and late reads, 4 and 5 the same of
/// a third kernel, which reads cell 3.
struct DependentLaunch : testing::Test {
  void SetUp() override {
    start();
    if (capability() < 90) GTEST_SKIP() << "griddepcontrol is of sm_90 and later";
  }
  CUdeviceptr cell(unsigned i) const { return cells.address + 4 * i; }

  StreamHandle stream;
  Array<unsigned> cells{(start(), std::vector<unsigned>{41, 0, 99, 99, 99, 99})};
  Launcher launch{stream.handle};
};

TEST_F(DependentLaunch, WithoutTheAttributeThereIsNoOverlap) {
  for (unsigned triggers : {0u, 3u}) {
    ASSERT_EQ(launch("primary", 3, false, cell(0), cell(1), triggers), CUDA_SUCCESS);
    ASSERT_EQ(launch("secondary", 1, false, cell(1), cell(2), cell(3)), CUDA_SUCCESS);
    EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(cells.values()[2], 42u);
    EXPECT_EQ(cells.values()[3], 42u);
  }
}

/// In order, instructions behind the trigger run as late as they may; under a seed, late or not.
TEST_F(DependentLaunch, WhatIsReadBeforeTheWaitIsStale) {
  ASSERT_EQ(launch("primary", 1, false, cell(0), cell(1), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch("secondary", 1, true, cell(1), cell(2), cell(3)), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  auto values = cells.values();
  if (!is_varied()) {
    EXPECT_EQ(values[2], 0u);
  }
  EXPECT_TRUE(values[2] == 0 || values[2] == 42) << values[2];
  EXPECT_EQ(values[3], 42u);
}

TEST_F(DependentLaunch, ABlockThatDoesNotTriggerKeepsDependentsWaiting) {
  ASSERT_EQ(launch("primary", 3, false, cell(0), cell(1), 2u), CUDA_SUCCESS);
  ASSERT_EQ(launch("secondary", 1, true, cell(1), cell(2), cell(3)), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(cells.values()[3], 42u);
}

/// The third kernel may start while the first one still runs, and waits for both.
TEST_F(DependentLaunch, DependentsOfDependents) {
  ASSERT_EQ(launch("primary", 2, false, cell(0), cell(1), 2u), CUDA_SUCCESS);
  ASSERT_EQ(launch("secondary", 2, true, cell(1), cell(2), cell(3)), CUDA_SUCCESS);
  ASSERT_EQ(launch("secondary", 2, true, cell(3), cell(4), cell(5)), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(cells.values()[3], 42u);
  EXPECT_EQ(cells.values()[5], 42u);
}

/// Other work waits for the whole kernel, and so do kernels behind it.
TEST_F(DependentLaunch, OnlyKernelsOverlap) {
  ASSERT_EQ(launch("primary", 1, false, cell(0), cell(1), 1u), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemcpyDtoDAsync_v2", cell(4), cell(1), size_t{4}, stream.handle), CUDA_SUCCESS);
  ASSERT_EQ(launch("secondary", 1, true, cell(4), cell(2), cell(3)), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(cells.values()[2], 42u);
  EXPECT_EQ(cells.values()[3], 42u);
}

/// A copy behind a dependent waits for the kernel that the dependent overlaps, too.
TEST_F(DependentLaunch, WhatFollowsWaitsForBoth) {
  ASSERT_EQ(launch("primary", 1, false, cell(0), cell(1), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch("primary", 1, true, cell(0), cell(5), 1u), CUDA_SUCCESS);  // never waits
  unsigned copied = 0;
  ASSERT_EQ(call("cuMemcpyDtoHAsync_v2", static_cast<void *>(&copied), cell(1), size_t{4}, stream.handle),
            CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(copied, 42u);
}

TEST_F(DependentLaunch, InACapture) {
  ASSERT_EQ(call("cuStreamBeginCapture_v2", stream.handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch("primary", 1, false, cell(0), cell(1), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch("secondary", 1, true, cell(1), cell(2), cell(3)), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(call("cuStreamEndCapture", stream.handle, &graph), CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(call("cuGraphInstantiateWithFlags", &executable, graph, 0ull), CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphLaunch", executable, stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  if (!is_varied()) {
    EXPECT_EQ(cells.values()[2], 0u);
  }
  EXPECT_EQ(cells.values()[3], 42u);
  call("cuGraphExecDestroy", executable);
  call("cuGraphDestroy", graph);
}

}  // namespace
