// Parameters of nodes: asked for and set, in graphs and in executable graphs.
#include "driver/graph_parameters.h"

#include <cstddef>
#include <cstring>

#include "driver/memory_table.h"

using namespace fa::emu::driver;

namespace fa::emu::driver {

CudaKernelNode from_version_1(const CudaKernelNode *parameters) {
  CudaKernelNode result = {};
  std::memcpy(&result, &given(parameters), offsetof(CudaKernelNode, kernel));
  return result;
}

HostWork host_work(const CudaHostNode &node) {
  require(node.function != nullptr, "no function");
  return {node.function, node.argument};
}

AllocateWork allocate_work(const CudaAllocateNode &node, Context &context) {
  require(node.bytes > 0 && node.pool.handle_types == 0, "0 bytes, or memory to be exported");
  require(node.pool.location.type == CU_MEM_LOCATION_TYPE_DEVICE, "the emulator's pools are on devices",
          CUDA_ERROR_NOT_SUPPORTED);
  Device &device = device_at(node.pool.location.id);
  require(device.limits.pools, "the device has no memory in the order of streams", CUDA_ERROR_NOT_SUPPORTED);
  return {make_allocation(context, device, node.bytes, memory::RangeKind::device, device.pool), node.bytes};
}

Work node_work(const CudaGraphNode &node, Context &context) {
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_work(node.kernel, context);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_work(node.copy.copy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return set_work(node.set);
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_work(node.host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return ChildWork{graph_of(node.child)->clone()};
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return EmptyWork();
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return EventWork{&object<Event>(node.event), node.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD};
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return allocate_work(node.allocate, context);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      require(is_known(node.free), "no allocation begins at that address");
      return FreeWork{node.free};
    default:
      refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has no nodes of type " + std::to_string(node.type));
  }
}

}  // namespace fa::emu::driver

namespace {

/// The work of a node, which is of that kind.
template <class T>
T &work_of(Work &work) {
  T *found = std::get_if<T>(&work);
  require(found != nullptr, "a node of another type");
  return *found;
}

/// Sets a node's work. make: called with the lock held.
template <class T, class Make>
CUresult set(const char *name, CUgraphNode node, Make make) {
  return api(name, [&] {
    Lock lock(process().mutex);
    T &work = work_of<T>(object<GraphNode>(node).work);
    work = make();
    return CUDA_SUCCESS;
  });
}
/// The same in an executable graph that was made from the node's.
template <class T, class Make>
CUresult set_in(const char *name, CUgraphExec exec, CUgraphNode node, Make make) {
  return api(name, [&] {
    Lock lock(process().mutex);
    T &work = work_of<T>(step_of(exec, node).work);
    T made = make();
    check(current(), made);
    work = std::move(made);
    return CUDA_SUCCESS;
  });
}
/// Asks for a node's work.
template <class T, class Get>
CUresult get(const char *name, CUgraphNode node, Get read) {
  return api(name, [&] {
    Lock lock(process().mutex);
    read(work_of<T>(object<GraphNode>(node).work));
    return CUDA_SUCCESS;
  });
}

/// Parameters point into the node.
void read_kernel(GraphNode &node, CudaKernelNode &parameters) {
  KernelWork &work = work_of<KernelWork>(node.work);
  node.parameters.clear();
  for (const Kernel::Parameter &one : work.kernel->parameters)
    node.parameters.push_back(work.parameters.data() + one.offset);
  parameters.function = handle_of<CUfunction>(work.kernel);
  for (int d = 0; d < 3; d++) {
    parameters.grid[d] = work.shape.grid[d];
    parameters.block[d] = work.shape.block[d];
  }
  parameters.shared = work.shape.dynamic_shared;
  parameters.parameters = node.parameters.data();
  parameters.extra = nullptr;
}

CudaCopyEnd3D read_end(const CopyEnd &end) {
  CudaCopyEnd3D result = {};
  result.memory_type = end.side == Side::host     ? CU_MEMORYTYPE_HOST
                       : end.side == Side::device ? CU_MEMORYTYPE_DEVICE
                                                  : CU_MEMORYTYPE_UNIFIED;
  result.host = end.side == Side::host ? reinterpret_cast<const void *>(end.address) : nullptr;
  result.device = end.side == Side::host ? 0 : end.address;
  result.pitch = end.pitch;
  result.height = end.pitch ? end.plane / end.pitch : 0;
  return result;
}

EventWork event_work(CUevent event, bool record) {
  return {&object<Event>(event), record};
}

}  // namespace

EMU_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CudaKernelNode *parameters) {
  return set<KernelWork>("cuGraphKernelNodeSetParams", node, [&] { return kernel_work(given(parameters), current()); });
}
EMU_API CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CudaKernelNode *parameters) {
  return set<KernelWork>("cuGraphKernelNodeSetParams", node,
                         [&] { return kernel_work(from_version_1(parameters), current()); });
}
EMU_API CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CudaMemsetNode *parameters) {
  return set<SetWork>("cuGraphMemsetNodeSetParams", node, [&] { return set_work(given(parameters)); });
}
EMU_API CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CudaCopy3D *parameters) {
  return set<CopyWork>("cuGraphMemcpyNodeSetParams", node, [&] { return copy_work(given(parameters)); });
}
EMU_API CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CudaHostNode *parameters) {
  return set<HostWork>("cuGraphHostNodeSetParams", node, [&] { return host_work(given(parameters)); });
}
EMU_API CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return set<EventWork>("cuGraphEventRecordNodeSetEvent", node, [&] { return event_work(event, true); });
}
EMU_API CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return set<EventWork>("cuGraphEventWaitNodeSetEvent", node, [&] { return event_work(event, false); });
}
EMU_API CUresult cuGraphNodeSetParams(CUgraphNode node, CudaGraphNode *parameters) {
  return api("cuGraphNodeSetParams", [&] {
    Lock lock(process().mutex);
    Work &work = object<GraphNode>(node).work;
    require(given(parameters).type == type_of(work), "a node of another type");
    work = node_work(*parameters, current());
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                   const CudaKernelNode *parameters) {
  return set_in<KernelWork>("cuGraphExecKernelNodeSetParams", exec, node,
                            [&] { return kernel_work(given(parameters), current()); });
}
EMU_API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CudaKernelNode *parameters) {
  return set_in<KernelWork>("cuGraphExecKernelNodeSetParams", exec, node,
                            [&] { return kernel_work(from_version_1(parameters), current()); });
}
EMU_API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CudaMemsetNode *parameters,
                                                CUcontext) {
  return set_in<SetWork>("cuGraphExecMemsetNodeSetParams", exec, node, [&] { return set_work(given(parameters)); });
}
EMU_API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CudaCopy3D *parameters,
                                                CUcontext) {
  return set_in<CopyWork>("cuGraphExecMemcpyNodeSetParams", exec, node, [&] { return copy_work(given(parameters)); });
}
EMU_API CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CudaHostNode *parameters) {
  return set_in<HostWork>("cuGraphExecHostNodeSetParams", exec, node, [&] { return host_work(given(parameters)); });
}
EMU_API CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set_in<EventWork>("cuGraphExecEventRecordNodeSetEvent", exec, node, [&] { return event_work(event, true); });
}
EMU_API CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set_in<EventWork>("cuGraphExecEventWaitNodeSetEvent", exec, node, [&] { return event_work(event, false); });
}
EMU_API CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CudaGraphNode *parameters) {
  return api("cuGraphExecNodeSetParams", [&] {
    Lock lock(process().mutex);
    Work &work = step_of(exec, node).work;
    require(given(parameters).type == type_of(work), "a node of another type");
    Work made = node_work(*parameters, current());
    check(current(), made);
    work = std::move(made);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CudaKernelNode *parameters) {
  return get<KernelWork>("cuGraphKernelNodeGetParams", node, [&](KernelWork &) {
    given(parameters) = {};
    read_kernel(object<GraphNode>(node), *parameters);
  });
}
EMU_API CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CudaKernelNode *parameters) {
  return get<KernelWork>("cuGraphKernelNodeGetParams", node, [&](KernelWork &) {
    CudaKernelNode all = {};
    read_kernel(object<GraphNode>(node), all);
    std::memcpy(&given(parameters), &all, offsetof(CudaKernelNode, kernel));
  });
}
EMU_API CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CudaCopy3D *parameters) {
  return get<CopyWork>("cuGraphMemcpyNodeGetParams", node, [&](const CopyWork &work) {
    given(parameters) = {read_end(work.from), read_end(work.to), work.width, work.height, work.depth};
  });
}
EMU_API CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CudaMemsetNode *parameters) {
  return get<SetWork>("cuGraphMemsetNodeGetParams", node, [&](const SetWork &work) {
    given(parameters) = {work.address, work.pitch, work.value, work.element_bytes, work.width, work.height};
  });
}
EMU_API CUresult cuGraphHostNodeGetParams(CUgraphNode node, CudaHostNode *parameters) {
  return get<HostWork>("cuGraphHostNodeGetParams", node, [&](const HostWork &work) {
    given(parameters) = {work.function, work.argument};
  });
}
EMU_API CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event) {
  return get<EventWork>("cuGraphEventRecordNodeGetEvent", node,
                        [&](const EventWork &work) { given(event) = handle_of<CUevent>(work.event); });
}
EMU_API CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event) {
  return get<EventWork>("cuGraphEventWaitNodeGetEvent", node,
                        [&](const EventWork &work) { given(event) = handle_of<CUevent>(work.event); });
}
EMU_API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CudaAllocateNode *parameters) {
  return get<AllocateWork>("cuGraphMemAllocNodeGetParams", node, [&](const AllocateWork &work) {
    given(parameters) = {};
    const Allocation *allocation = find_allocation(work.address);
    parameters->pool.allocation_type = 1;
    parameters->pool.location = {CU_MEM_LOCATION_TYPE_DEVICE, allocation ? allocation->device->ordinal : 0};
    parameters->bytes = work.bytes;
    parameters->address = work.address;
  });
}
EMU_API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address) {
  return get<FreeWork>("cuGraphMemFreeNodeGetParams", node,
                       [&](const FreeWork &work) { given(address) = work.address; });
}
EMU_API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
  return get<ChildWork>("cuGraphChildGraphNodeGetGraph", node,
                        [&](const ChildWork &work) { given(graph) = adopt(work.graph); });
}
