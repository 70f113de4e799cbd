// A CUDA graph of a call.
#pragma once

#include "cuda/fixture.h"

namespace cuda_test {

/// The calls of a pass in a capture, as a graph to launch.
class Graph {
 public:
  Graph(const Op &op, const fa_forward_args &args) : Graph(args.stream, [&] { return fa_forward(op.op, &args); }) {}
  Graph(const Op &op, const fa_backward_args &args) : Graph(args.stream, [&] { return fa_backward(op.op, &args); }) {}
  Graph(const Op &op, const fa_merge_args &args) : Graph(args.stream, [&] { return fa_merge(op.op, &args); }) {}
  Graph(const Op &op, const fa_append_args &args) : Graph(args.stream, [&] { return fa_append(op.op, &args); }) {}

  /// Of whatever pass() enqueues on a stream; its status.
  template <class Pass>
  Graph(void *stream, const Pass &pass) {
    EXPECT_EQ(call("cuStreamBeginCapture_v2", static_cast<CUstream>(stream), 0), CUDA_SUCCESS);
    status = pass();
    EXPECT_EQ(call("cuStreamEndCapture", static_cast<CUstream>(stream), &graph_), CUDA_SUCCESS);
    call("cuGraphGetNodes", graph_, static_cast<CUgraphNode *>(nullptr), &nodes);
    EXPECT_EQ(call("cuGraphInstantiateWithFlags", &exec_, graph_, 0ull), CUDA_SUCCESS);
  }
  ~Graph() {
    call("cuGraphExecDestroy", exec_);
    call("cuGraphDestroy", graph_);
  }
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  CUresult launch(CUstream stream) const { return call("cuGraphLaunch", exec_, stream); }

  fa_status status;
  size_t nodes = 0;

 private:
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

}  // namespace cuda_test
