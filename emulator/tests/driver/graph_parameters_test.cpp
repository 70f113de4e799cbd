// Parameters of graph nodes: asked for, set, and set in executable graphs, in both versions of the kernel's.
#include <cstring>

#include "fixture.h"

namespace {

using namespace emulated;

struct GraphParameters : testing::Test {
  void SetUp() override {
    start();
    ASSERT_EQ(call("cuGraphCreate", &graph, 0u), CUDA_SUCCESS);
  }
  void TearDown() override { call("cuGraphDestroy", graph); }

  CudaKernelNode step_node(unsigned &factor, unsigned &add) {
    pointers[0] = &values.address;
    pointers[1] = &factor;
    pointers[2] = &add;
    CudaKernelNode node = {};
    node.function = step_function();
    node.grid[0] = node.grid[1] = node.grid[2] = node.block[1] = node.block[2] = 1;
    node.block[0] = 4;
    node.parameters = pointers;
    return node;
  }
  CUgraphNode add_kernel(unsigned factor, unsigned add) {
    CudaKernelNode node = step_node(factor, add);
    CUgraphNode result = nullptr;
    EXPECT_EQ(call("cuGraphAddKernelNode_v2", &result, graph, static_cast<const CUgraphNode *>(nullptr), size_t{0},
                   static_cast<const CudaKernelNode *>(&node)),
              CUDA_SUCCESS);
    return result;
  }
  CUgraphExec instantiate() {
    CUgraphExec result = nullptr;
    EXPECT_EQ(call("cuGraphInstantiateWithFlags", &result, graph, 0ull), CUDA_SUCCESS);
    return result;
  }
  unsigned launch(CUgraphExec executable) {
    EXPECT_EQ(call("cuGraphLaunch", executable, stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
    return values.values()[0];
  }

  CUgraph graph = nullptr;
  StreamHandle stream;
  Array<unsigned> values{(start(), std::vector<unsigned>(4, 1))};
  void *pointers[3] = {};
};

TEST_F(GraphParameters, OfKernels) {
  CUgraphNode node = add_kernel(3, 4);
  CudaKernelNode read;
  std::memset(&read, 0xee, sizeof read);
  ASSERT_EQ(call("cuGraphKernelNodeGetParams_v2", node, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.function, step_function());
  EXPECT_EQ(read.block[0], 4u);
  EXPECT_EQ(read.kernel, nullptr);
  EXPECT_EQ(*static_cast<CUdeviceptr *>(read.parameters[0]), values.address);
  EXPECT_EQ(*static_cast<unsigned *>(read.parameters[1]), 3u);
  EXPECT_EQ(*static_cast<unsigned *>(read.parameters[2]), 4u);
  // Version 1 is shorter: bytes behind it stay.
  std::memset(&read, 0xee, sizeof read);
  ASSERT_EQ(call("cuGraphKernelNodeGetParams", node, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.block[0], 4u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read.kernel), 0xeeeeeeeeeeeeeeee);
  // Parameters that were read can be set, in the graph and in an executable one, which are apart.
  CUgraphExec executable = instantiate();
  unsigned factor = 10, add = 0;
  CudaKernelNode other = step_node(factor, add);
  const CudaKernelNode *given = &other;
  ASSERT_EQ(call("cuGraphKernelNodeSetParams", node, given), CUDA_SUCCESS);
  EXPECT_EQ(launch(executable), 1u * 3 + 4);
  ASSERT_EQ(call("cuGraphExecKernelNodeSetParams", executable, node, given), CUDA_SUCCESS);
  EXPECT_EQ(launch(executable), 70u);
  given = &read;
  ASSERT_EQ(call("cuGraphKernelNodeGetParams", node, &read), CUDA_SUCCESS);
  read.block[0] = 4096;
  EXPECT_NE(call("cuGraphExecKernelNodeSetParams", executable, node, given), CUDA_SUCCESS);
  EXPECT_EQ(launch(executable), 700u) << "a refused call changes nothing";
  CudaHostNode host = {};
  EXPECT_EQ(call("cuGraphHostNodeGetParams", node, &host), CUDA_ERROR_INVALID_VALUE);
  call("cuGraphExecDestroy", executable);
}

TEST_F(GraphParameters, OfCopiesAndSets) {
  Array<unsigned> others({5, 6, 7, 8});
  CudaCopy3D copy = {}, read = {};
  copy.source.memory_type = copy.destination.memory_type = CU_MEMORYTYPE_DEVICE;
  copy.source.device = others.address;
  copy.destination.device = values.address;
  copy.source.pitch = copy.destination.pitch = 16;
  copy.width = 4;
  copy.height = copy.depth = 1;
  CUgraphNode copies = nullptr, sets = nullptr;
  const CUgraphNode *nothing = nullptr;
  const CudaCopy3D *given = &copy;
  ASSERT_EQ(call("cuGraphAddMemcpyNode", &copies, graph, nothing, size_t{0}, given, static_cast<CUcontext>(nullptr)),
            CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphMemcpyNodeGetParams", copies, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.source.device, others.address);
  EXPECT_EQ(read.destination.device, values.address);
  EXPECT_EQ(read.width, 4u);
  CudaMemsetNode set = {values.address + 12, 0, 9, 4, 1, 1};
  const CudaMemsetNode *given_set = &set;
  ASSERT_EQ(call("cuGraphAddMemsetNode", &sets, graph, nothing, size_t{0}, given_set, static_cast<CUcontext>(nullptr)),
            CUDA_SUCCESS);
  CUgraphExec executable = instantiate();
  copy.source.device = others.address + 4;
  set.value = 11;
  ASSERT_EQ(call("cuGraphExecMemcpyNodeSetParams", executable, copies, given, static_cast<CUcontext>(nullptr)),
            CUDA_SUCCESS);
  ASSERT_EQ(call("cuGraphExecMemsetNodeSetParams", executable, sets, given_set, static_cast<CUcontext>(nullptr)),
            CUDA_SUCCESS);
  EXPECT_EQ(launch(executable), 6u);
  EXPECT_EQ(values.values()[3], 11u);
  call("cuGraphExecDestroy", executable);
}

TEST_F(GraphParameters, OfAllocationsEventsAndClones) {
  CudaAllocateNode allocation = {}, read = {};
  allocation.pool.allocation_type = 1;
  allocation.pool.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  allocation.bytes = 1024;
  CUgraphNode allocates = nullptr, records = nullptr, twin = nullptr, frees = nullptr;
  const CUgraphNode *nothing = nullptr;
  ASSERT_EQ(call("cuGraphAddMemAllocNode", &allocates, graph, nothing, size_t{0}, &allocation), CUDA_SUCCESS);
  ASSERT_NE(allocation.address, 0u);
  ASSERT_EQ(call("cuGraphMemAllocNodeGetParams", allocates, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.address, allocation.address);
  EXPECT_EQ(read.bytes, 1024u);
  ASSERT_EQ(call("cuGraphAddMemFreeNode", &frees, graph, static_cast<const CUgraphNode *>(&allocates), size_t{1},
                 allocation.address),
            CUDA_SUCCESS);
  EventHandle first, second;
  CUevent event = nullptr;
  ASSERT_EQ(call("cuGraphAddEventRecordNode", &records, graph, nothing, size_t{0}, first.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGraphEventRecordNodeSetEvent", records, second.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGraphEventRecordNodeGetEvent", records, &event), CUDA_SUCCESS);
  EXPECT_EQ(event, second.handle);
  CUgraph clone = nullptr;
  ASSERT_EQ(call("cuGraphClone", &clone, graph), CUDA_SUCCESS);
  EXPECT_EQ(call("cuGraphNodeFindInClone", &twin, records, clone), CUDA_SUCCESS);
  EXPECT_NE(twin, records);
  EXPECT_EQ(call("cuGraphNodeFindInClone", &twin, records, graph), CUDA_ERROR_INVALID_VALUE);
  call("cuGraphDestroy", clone);
}

}  // namespace
