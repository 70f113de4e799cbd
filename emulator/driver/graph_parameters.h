// Work from the parameters of graph nodes, in all their forms.
#pragma once

#include "driver/graph.h"

namespace fa::emu::driver {

template <class T>
T &given(T *parameters) {
  require(parameters != nullptr, "no parameters, or no place for them");
  return *parameters;
}

/// Version 1 of a kernel's parameters ends before the kernel and the context.
CudaKernelNode from_version_1(const CudaKernelNode *parameters);
HostWork host_work(const CudaHostNode &node);
/// Allocates at once: addresses are known when the node is made.
AllocateWork allocate_work(const CudaAllocateNode &node, Context &context);
/// From cuGraphAddNode's parameters.
Work node_work(const CudaGraphNode &node, Context &context);

}  // namespace fa::emu::driver
