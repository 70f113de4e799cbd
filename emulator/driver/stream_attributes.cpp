// Attributes of streams and of kernel nodes. Those that would only make a GPU faster are kept and returned, and change
// nothing here.
#include <cstring>

#include "driver/cuda_structs.h"
#include "driver/graph.h"
#include "driver/state.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

namespace {

void check_id(int id) {
  require(id > 0 && id <= CU_LAUNCH_ATTRIBUTE_LAST, "no such attribute");
}

KernelWork &kernel_of_node(CUgraphNode node) {
  KernelWork *work = std::get_if<KernelWork>(&object<GraphNode>(node).work);
  require(work != nullptr, "a node that is no kernel");
  return *work;
}

}  // namespace

EMU_API CUresult cuStreamSetAttribute(CUstream handle, int id, const CudaAttributeValue *value) {
  return api("cuStreamSetAttribute", [&] {
    Lock lock(process().mutex);
    check_id(id);
    require(value != nullptr, "no value");
    stream_of(handle).attributes[id] = *value;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamGetAttribute(CUstream handle, int id, CudaAttributeValue *value) {
  return api("cuStreamGetAttribute", [&] {
    Lock lock(process().mutex);
    check_id(id);
    require(value != nullptr, "no place for the value");
    Stream &stream = stream_of(handle);
    *value = {};
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->number = stream.priority;
    if (auto found = stream.attributes.find(id); found != stream.attributes.end()) *value = found->second;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  return api("cuStreamCopyAttributes", [&] {
    Lock lock(process().mutex);
    stream_of(to).attributes = stream_of(from).attributes;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, int id, const CudaAttributeValue *value) {
  return api("cuGraphKernelNodeSetAttribute", [&] {
    Lock lock(process().mutex);
    require(value != nullptr, "no value");
    apply(kernel_of_node(node), {id, {}, *value});
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int id, CudaAttributeValue *value) {
  return api("cuGraphKernelNodeGetAttribute", [&] {
    Lock lock(process().mutex);
    check_id(id);
    require(value != nullptr, "no place for the value");
    const KernelWork &work = kernel_of_node(node);
    *value = {};
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->number = work.cooperative;
    if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) value->number = work.programmatic;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      std::memcpy(value->dimensions, work.shape.cluster, sizeof value->dimensions);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return api("cuGraphKernelNodeCopyAttributes", [&] {
    Lock lock(process().mutex);
    KernelWork &target = kernel_of_node(to);
    const KernelWork &source = kernel_of_node(from);
    target.cooperative = source.cooperative;
    target.programmatic = source.programmatic;
    std::memcpy(target.shape.cluster, source.shape.cluster, sizeof source.shape.cluster);
    return CUDA_SUCCESS;
  });
}
