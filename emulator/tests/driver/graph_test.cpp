// Graphs made by hand and by capture, their updates, and the calls that a capture forbids.
#include <thread>

#include "fixture.h"

namespace {

using namespace emulated;

CUgraph captured(CUstream stream) {
  CUgraph graph = nullptr;
  EXPECT_EQ(call("cuStreamEndCapture", stream, &graph), CUDA_SUCCESS);
  return graph;
}

CUgraphExec instantiated(CUgraph graph) {
  CUgraphExec exec = nullptr;
  EXPECT_EQ(call("cuGraphInstantiateWithFlags", &exec, graph, 0ull), CUDA_SUCCESS);
  return exec;
}

void begin(CUstream stream, int mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
  step_function();  // loading code while capturing is forbidden
  ASSERT_EQ(call("cuStreamBeginCapture_v2", stream, mode), CUDA_SUCCESS);
}

TEST(Capture, ReplaysWhatWasCaptured) {
  StreamHandle stream;
  Array<unsigned> values(std::vector<unsigned>(8, 1)), copy(std::vector<unsigned>(8, 0));
  begin(stream);
  unsigned factor = 3;
  EXPECT_EQ(step(stream, values.address, 8, factor, 1), CUDA_SUCCESS);
  factor = 77;  // parameters are copied at the call
  EXPECT_EQ(call("cuMemcpyDtoDAsync_v2", copy.address, values.address, size_t{32}, stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemsetD32Async", values.address, 5u, size_t{4}, stream.handle), CUDA_SUCCESS);
  CUgraph graph = captured(stream);
  EXPECT_EQ(values.values(), std::vector<unsigned>(8, 1));  // nothing has run yet
  size_t count = 0, edges = 0;
  EXPECT_EQ(call("cuGraphGetNodes", graph, static_cast<CUgraphNode *>(nullptr), &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 3u);
  call("cuGraphGetEdges", graph, static_cast<CUgraphNode *>(nullptr), static_cast<CUgraphNode *>(nullptr), &edges);
  EXPECT_EQ(edges, 2u);
  CUgraphExec exec = instantiated(graph);
  EXPECT_EQ(call("cuGraphDestroy", graph), CUDA_SUCCESS);
  for (int i = 0; i < 2; i++) EXPECT_EQ(call("cuGraphLaunch", exec, stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  // First: 1 -> 4, then half becomes 5; second: 5 -> 16, 4 -> 13.
  EXPECT_EQ(copy.values(), (std::vector<unsigned>{16, 16, 16, 16, 13, 13, 13, 13}));
  EXPECT_EQ(call("cuGraphExecDestroy", exec), CUDA_SUCCESS);
}

TEST(Capture, ForksAndJoins) {
  StreamHandle first, second;
  EventHandle fork, join;
  Array<unsigned> a(std::vector<unsigned>(1, 1)), b(std::vector<unsigned>(1, 1));
  begin(first);
  step(first, a.address, 1, 2, 0);
  call("cuEventRecord", fork.handle, first.handle);
  EXPECT_EQ(call("cuStreamWaitEvent", second.handle, fork.handle, 0u), CUDA_SUCCESS);
  step(second, b.address, 1, 3, 0);
  int status = 0;
  EXPECT_EQ(call("cuStreamIsCapturing", second.handle, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, 1);
  call("cuEventRecord", join.handle, second.handle);
  step(first, a.address, 1, 5, 0);
  call("cuStreamWaitEvent", first.handle, join.handle, 0u);
  step(first, b.address, 1, 1, 100);
  CUgraphExec exec = instantiated(captured(first));
  call("cuGraphLaunch", exec, first.handle);
  call("cuStreamSynchronize", first.handle);
  EXPECT_EQ(a.values()[0], 10u);
  EXPECT_EQ(b.values()[0], 103u);
  EXPECT_EQ(call("cuEventQuery", join.handle), CUDA_ERROR_CAPTURED_EVENT);
}

/// Calls that a capture forbids, the code that they give, and that the capture is lost.
template <class Call>
void forbidden(CUresult code, Call call_it, unsigned flags = CU_STREAM_NON_BLOCKING) {
  StreamHandle stream(flags);
  begin(stream);
  EXPECT_EQ(call_it(stream.handle), code);
  int status = 0;
  call("cuStreamIsCapturing", stream.handle, &status);
  EXPECT_EQ(status, 2);
  CUgraph graph = nullptr;
  EXPECT_EQ(call("cuStreamEndCapture", stream.handle, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(graph, nullptr);
}

TEST(Capture, Forbids) {
  start();
  Array<unsigned> values(std::vector<unsigned>(1, 1));
  constexpr CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  forbidden(unsupported, [](CUstream) {
    CUdeviceptr address = 0;
    return call("cuMemAlloc_v2", &address, size_t{4});
  });
  forbidden(unsupported, [](CUstream stream) { return call("cuStreamSynchronize", stream); });
  forbidden(unsupported, [](CUstream stream) { return call("cuStreamQuery", stream); });
  forbidden(unsupported, [](CUstream) { return call("cuCtxSynchronize"); });
  forbidden(unsupported, [](CUstream) {
    CUmodule module = nullptr;
    std::string ptx = step_ptx();
    return call("cuModuleLoadData", &module, static_cast<const void *>(ptx.c_str()));
  });
  forbidden(unsupported, [&](CUstream) {
    unsigned host = 0;
    return call("cuMemcpyDtoH_v2", static_cast<void *>(&host), values.address, size_t{4});
  });
  forbidden(
      CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, [&](CUstream) { return step(nullptr, values.address, 1, 1, 1); }, 0);
  forbidden(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, [](CUstream stream) {
    EventHandle event;
    call("cuEventRecord", event.handle, stream);
    return call("cuStreamWaitEvent", CU_STREAM_LEGACY, event.handle, 0u);
  });
  forbidden(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, [](CUstream stream) {
    StreamHandle other;
    EventHandle event;
    call("cuEventRecord", event.handle, other.handle);
    return call("cuStreamWaitEvent", stream, event.handle, 0u);
  });
}

TEST(Capture, ModesAndThreads) {
  StreamHandle stream;
  auto allocate = [] {
    CUdeviceptr address = 0;
    CUresult result = call("cuMemAlloc_v2", &address, size_t{4});
    if (result == CUDA_SUCCESS) call("cuMemFree_v2", address);
    return result;
  };
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(allocate(), CUDA_SUCCESS);
  captured(stream);
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_EQ(call("cuThreadExchangeStreamCaptureMode", &mode), CUDA_SUCCESS);
  EXPECT_EQ(allocate(), CUDA_SUCCESS);
  call("cuThreadExchangeStreamCaptureMode", &mode);
  CUcontext context = nullptr;
  call("cuCtxGetCurrent", &context);
  std::thread other([&] {
    call("cuCtxSetCurrent", context);
    CUgraph graph = nullptr;
    EXPECT_EQ(call("cuStreamEndCapture", stream.handle, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  });
  other.join();
  captured(stream);
  begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread third([&] {
    call("cuCtxSetCurrent", context);
    EXPECT_EQ(allocate(), CUDA_SUCCESS);
  });
  third.join();
  EXPECT_EQ(allocate(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  call("cuStreamEndCapture", stream.handle, &graph);
}

TEST(Capture, EndsOnlyWhereItBeganAndJoined) {
  StreamHandle first, second;
  EventHandle fork;
  Array<unsigned> values(std::vector<unsigned>(1, 1));
  begin(first);
  step(first, values.address, 1, 2, 0);
  call("cuEventRecord", fork.handle, first.handle);
  call("cuStreamWaitEvent", second.handle, fork.handle, 0u);
  step(second, values.address, 1, 2, 0);
  CUgraph graph = nullptr;
  EXPECT_EQ(call("cuStreamEndCapture", second.handle, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(call("cuStreamEndCapture", first.handle, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(call("cuStreamBeginCapture_v2", CU_STREAM_LEGACY, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(call("cuStreamEndCapture", first.handle, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

CudaKernelNode kernel_node(void **parameters, unsigned threads) {
  CudaKernelNode node{};
  node.function = step_function();
  node.grid[0] = node.grid[1] = node.grid[2] = node.block[1] = node.block[2] = 1;
  node.block[0] = threads;
  node.parameters = parameters;
  return node;
}

TEST(Graphs, ByHandAndUpdated) {
  StreamHandle stream;
  Array<unsigned> values(std::vector<unsigned>(1, 1));
  static int counted = 0;
  auto make = [&](unsigned add) {
    CUgraph graph = nullptr;
    call("cuGraphCreate", &graph, 0u);
    unsigned factor = 2;
    CUdeviceptr out = values.address;
    void *parameters[] = {&out, &factor, &add};
    CudaKernelNode kernel = kernel_node(parameters, 1);
    CudaMemsetNode set{values.address, 0, 10, 4, 1, 1};
    CudaHostNode host{[](void *) { counted++; }, nullptr};
    CUgraphNode first = nullptr, second = nullptr, third = nullptr;
    using Nodes = const CUgraphNode *;
    EXPECT_EQ(call("cuGraphAddMemsetNode", &first, graph, Nodes(), size_t{0}, static_cast<const CudaMemsetNode *>(&set),
                   static_cast<CUcontext>(nullptr)),
              CUDA_SUCCESS);
    EXPECT_EQ(call("cuGraphAddKernelNode_v2", &second, graph, Nodes(&first), size_t{1},
                   static_cast<const CudaKernelNode *>(&kernel)),
              CUDA_SUCCESS);
    EXPECT_EQ(
        call("cuGraphAddHostNode", &third, graph, Nodes(&second), size_t{1}, static_cast<const CudaHostNode *>(&host)),
        CUDA_SUCCESS);
    return graph;
  };
  CUgraph graph = make(1), changed = make(7), empty = nullptr;
  CUgraphExec exec = instantiated(graph);
  call("cuGraphLaunch", exec, stream.handle);
  call("cuStreamSynchronize", stream.handle);
  EXPECT_EQ(values.values()[0], 21u);
  CudaGraphUpdateInfo info{};
  EXPECT_EQ(call("cuGraphExecUpdate_v2", exec, changed, &info), CUDA_SUCCESS);
  call("cuGraphLaunch", exec, stream.handle);
  call("cuStreamSynchronize", stream.handle);
  EXPECT_EQ(values.values()[0], 27u);
  EXPECT_EQ(counted, 2);
  call("cuGraphCreate", &empty, 0u);
  EXPECT_EQ(call("cuGraphExecUpdate_v2", exec, empty, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}

TEST(Graphs, Circles) {
  start();
  CUgraph graph = nullptr;
  call("cuGraphCreate", &graph, 0u);
  CUgraphNode nodes[2] = {};
  for (CUgraphNode &node : nodes)
    call("cuGraphAddEmptyNode", &node, graph, static_cast<const CUgraphNode *>(nullptr), size_t{0});
  const CUgraphNode from[] = {nodes[0], nodes[1]}, to[] = {nodes[1], nodes[0]};
  EXPECT_EQ(call("cuGraphAddDependencies", graph, &from[0], &to[0], size_t{2}), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(call("cuGraphInstantiateWithFlags", &exec, graph, 0ull), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
