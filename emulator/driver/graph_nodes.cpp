// Adding nodes to graphs, and their parameters.
#include "driver/cuda_structs.h"
#include "driver/graph.h"
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

template <class T>
const T &given(const T *parameters) {
  require(parameters != nullptr, "no parameters");
  return *parameters;
}

template <class T>
T &work_of(CUgraphNode node) {
  T *work = std::get_if<T>(&object<GraphNode>(node).work);
  require(work != nullptr, "a node of another type");
  return *work;
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
  return add("cuGraphAddHostNode", node, graph, after, count, [&] {
    require(given(host).function != nullptr, "no function");
    return HostWork{host->function, host->argument};
  });
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

EMU_API CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const CudaGraphEdge *,
                                   size_t count, CudaGraphNode *parameters) {
  return add("cuGraphAddNode", node, graph, after, count, [&]() -> Work {
    const CudaGraphNode &all = given(parameters);
    switch (all.type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_work(all.kernel, current());
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_work(all.copy.copy);
      case CU_GRAPH_NODE_TYPE_MEMSET:
        return set_work(all.set);
      case CU_GRAPH_NODE_TYPE_HOST:
        require(all.host.function != nullptr, "no function");
        return HostWork{all.host.function, all.host.argument};
      case CU_GRAPH_NODE_TYPE_GRAPH:
        return ChildWork{graph_of(all.child)->clone()};
      case CU_GRAPH_NODE_TYPE_EMPTY:
        return EmptyWork();
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return EventWork{&object<Event>(all.event), all.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD};
      default:
        refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has no nodes of type " + std::to_string(all.type));
    }
  });
}
EMU_API CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                CudaGraphNode *parameters) {
  return cuGraphAddNode_v2(node, graph, after, nullptr, count, parameters);
}

EMU_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CudaKernelNode *parameters) {
  return api("cuGraphKernelNodeSetParams", [&] {
    Lock lock(process().mutex);
    work_of<KernelWork>(node) = kernel_work(given(parameters), current());
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CudaMemsetNode *parameters) {
  return api("cuGraphMemsetNodeSetParams", [&] {
    Lock lock(process().mutex);
    work_of<SetWork>(node) = set_work(given(parameters));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CudaCopy3D *parameters) {
  return api("cuGraphMemcpyNodeSetParams", [&] {
    Lock lock(process().mutex);
    work_of<CopyWork>(node) = copy_work(given(parameters));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CudaHostNode *parameters) {
  return api("cuGraphHostNodeSetParams", [&] {
    Lock lock(process().mutex);
    work_of<HostWork>(node) = {given(parameters).function, given(parameters).argument};
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphHostNodeGetParams(CUgraphNode node, CudaHostNode *parameters) {
  return api("cuGraphHostNodeGetParams", [&] {
    Lock lock(process().mutex);
    require(parameters != nullptr, "no place for the parameters");
    const HostWork &work = work_of<HostWork>(node);
    *parameters = {work.function, work.argument};
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CudaMemsetNode *parameters) {
  return api("cuGraphMemsetNodeGetParams", [&] {
    Lock lock(process().mutex);
    require(parameters != nullptr, "no place for the parameters");
    const SetWork &work = work_of<SetWork>(node);
    *parameters = {work.address, work.pitch, work.value, work.element_bytes, work.width, work.height};
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
  return api("cuGraphChildGraphNodeGetGraph", [&] {
    Lock lock(process().mutex);
    require(graph != nullptr, "no place for the graph");
    *graph = adopt(work_of<ChildWork>(node).graph);
    return CUDA_SUCCESS;
  });
}
