// Adding nodes to graphs.
#include "driver/graph_parameters.h"
#include "driver/memory_table.h"

using namespace fa::emu::driver;

namespace {

/// Adds work behind nodes; make() is called with the lock held.
template <class Make>
CUresult add(const char *name, CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, Make make) {
  return api(name, [&] {
    Lock lock(process().mutex);
    require(node != nullptr, "no place for the node");
    auto owner = graph_of(graph);
    Work work = make();
    if (!std::holds_alternative<EventWork>(work) && !std::holds_alternative<ChildWork>(work) &&
        !std::holds_alternative<EmptyWork>(work) && !std::holds_alternative<HostWork>(work))
      check(current(), work);
    *node = handle_of<CUgraphNode>(owner->add(std::move(work), nodes_of(after, count)));
    return CUDA_SUCCESS;
  });
}

}  // namespace

EMU_API CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count) {
  return add("cuGraphAddEmptyNode", node, graph, after, count, [] { return EmptyWork(); });
}

EMU_API CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                         const CudaKernelNode *parameters) {
  return add("cuGraphAddKernelNode", node, graph, after, count,
             [&] { return kernel_work(given(parameters), current()); });
}

/// Version 1 of the parameters ends before the kernel and the context.
EMU_API CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                      const CudaKernelNode *parameters) {
  return add("cuGraphAddKernelNode", node, graph, after, count,
             [&] { return kernel_work(from_version_1(parameters), current()); });
}

EMU_API CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                      const CudaCopy3D *copy, CUcontext) {
  return add("cuGraphAddMemcpyNode", node, graph, after, count, [&] { return copy_work(given(copy)); });
}

EMU_API CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                      const CudaMemsetNode *set, CUcontext) {
  return add("cuGraphAddMemsetNode", node, graph, after, count, [&] { return set_work(given(set)); });
}

EMU_API CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                    const CudaHostNode *host) {
  return add("cuGraphAddHostNode", node, graph, after, count, [&] { return host_work(given(host)); });
}

EMU_API CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                          CUgraph child) {
  return add("cuGraphAddChildGraphNode", node, graph, after, count,
             [&] { return ChildWork{graph_of(child)->clone()}; });
}

EMU_API CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                           CUevent event) {
  return add("cuGraphAddEventRecordNode", node, graph, after, count, [&] {
    return EventWork{&object<Event>(event), true};
  });
}

EMU_API CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                         CUevent event) {
  return add("cuGraphAddEventWaitNode", node, graph, after, count, [&] {
    return EventWork{&object<Event>(event), false};
  });
}

EMU_API CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                        CudaAllocateNode *parameters) {
  return add("cuGraphAddMemAllocNode", node, graph, after, count, [&] {
    AllocateWork work = allocate_work(given(parameters), current());
    graph_of(graph)->memory.push_back(work.address);
    parameters->address = work.address;
    return work;
  });
}

EMU_API CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                       CUdeviceptr address) {
  return add("cuGraphAddMemFreeNode", node, graph, after, count, [&] {
    require(is_known(address), "no allocation begins at that address");
    return FreeWork{address};
  });
}

EMU_API CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const CudaGraphEdge *,
                                   size_t count, CudaGraphNode *parameters) {
  return add("cuGraphAddNode", node, graph, after, count, [&]() -> Work {
    Work work = node_work(given(parameters), current());
    if (AllocateWork *allocation = std::get_if<AllocateWork>(&work)) {
      graph_of(graph)->memory.push_back(allocation->address);
      parameters->allocate.address = allocation->address;
    }
    return work;
  });
}
EMU_API CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                CudaGraphNode *parameters) {
  return cuGraphAddNode_v2(node, graph, after, nullptr, count, parameters);
}
