// The API's functions about graphs: making, asking, instantiating, launching, updating.
#include <algorithm>
#include <cstring>
#include <set>

#include "driver/called_as.h"
#include "driver/capture.h"
#include "driver/graph.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

namespace {

std::set<std::unique_ptr<GraphExec>> &executables() {
  static auto *const all = new std::set<std::unique_ptr<GraphExec>>;
  return *all;
}

/// The count-and-fill protocol: without a list only the number is returned.
template <class T>
void fill(const std::vector<T> &values, T *list, size_t *count) {
  require(count != nullptr, "no place for the number");
  if (list)
    for (size_t i = 0; i < *count; i++) list[i] = i < values.size() ? values[i] : T();
  *count = list ? std::min(*count, values.size()) : values.size();
}

CUgraphNode handle(const GraphNode *node) {
  return handle_of<CUgraphNode>(const_cast<GraphNode *>(node));
}

std::vector<CUgraphNode> handles(const std::vector<GraphNode *> &nodes) {
  std::vector<CUgraphNode> result;
  for (const GraphNode *node : nodes) result.push_back(handle(node));
  return result;
}

CUresult instantiate(CUgraphExec *exec, CUgraph graph, cuuint64_t flags) {
  return api("cuGraphInstantiate", [&] {
    Lock lock(process().mutex);
    require(exec != nullptr, "no place for the executable graph");
    auto made = std::make_unique<GraphExec>();
    plan(graph_of(graph), *made);
    made->flags = flags;
    make_alive(made.get());
    *exec = handle_of<CUgraphExec>(made.get());
    executables().insert(std::move(made));
    return CUDA_SUCCESS;
  });
}

/// The reason why an executable graph cannot take over another one's parameters.
int difference(const GraphExec &old, const GraphExec &fresh, const GraphNode *&node) {
  node = nullptr;
  if (old.steps.size() != fresh.steps.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (size_t i = 0; i < fresh.steps.size(); i++) {
    node = fresh.steps[i].origin;
    if (old.steps[i].after != fresh.steps[i].after) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (old.steps[i].work.index() != fresh.steps[i].work.index()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    const KernelWork *before = std::get_if<KernelWork>(&old.steps[i].work);
    const KernelWork *after = std::get_if<KernelWork>(&fresh.steps[i].work);
    if (before && before->kernel->module->context != after->kernel->module->context)
      return CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED;
  }
  node = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

}  // namespace

GraphExec::Step &fa::emu::driver::step_of(CUgraphExec exec, CUgraphNode node) {
  for (GraphExec::Step &step : object<GraphExec>(exec).steps)
    if (step.origin == &object<GraphNode>(node)) return step;
  refuse(CUDA_ERROR_INVALID_VALUE, "the executable graph was not made from that node");
}

EMU_API CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
  return api("cuGraphCreate", [&] {
    Lock lock(process().mutex);
    require(graph != nullptr && flags == 0, "no place for the graph, or flags that are not 0");
    *graph = adopt(std::shared_ptr<Graph>(new Graph));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphDestroy(CUgraph graph) {
  return api("cuGraphDestroy", [&] {
    Lock lock(process().mutex);
    destroy_graph(graph);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphClone(CUgraph *clone, CUgraph original) {
  return api_value("cuGraphClone", clone, "graph", [&] { return adopt(graph_of(original)->clone()); });
}

EMU_API CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode original, CUgraph clone) {
  return api("cuGraphNodeFindInClone", [&] {
    Lock lock(process().mutex);
    require(found != nullptr, "no place for the node");
    const GraphNode &asked = object<GraphNode>(original);
    for (const auto &node : graph_of(clone)->nodes)
      if (node->original == &asked) return *found = handle(node.get()), CUDA_SUCCESS;
    refuse(CUDA_ERROR_INVALID_VALUE, "the graph was not cloned from that node's");
  });
}

EMU_API CUresult cuGraphDestroyNode(CUgraphNode node) {
  return api("cuGraphDestroyNode", [&] {
    Lock lock(process().mutex);
    GraphNode &found = object<GraphNode>(node);
    found.graph->remove(&found);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return api("cuGraphGetNodes", [&] {
    Lock lock(process().mutex);
    std::vector<CUgraphNode> all;
    for (const auto &node : graph_of(graph)->nodes) all.push_back(handle(node.get()));
    fill(all, nodes, count);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return api("cuGraphGetRootNodes", [&] {
    Lock lock(process().mutex);
    std::vector<CUgraphNode> roots;
    for (const auto &node : graph_of(graph)->nodes)
      if (node->after.empty()) roots.push_back(handle(node.get()));
    fill(roots, nodes, count);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CudaGraphEdge *edges,
                                    size_t *count) {
  return api("cuGraphGetEdges", [&] {
    Lock lock(process().mutex);
    std::vector<CUgraphNode> begins, ends;
    for (const auto &node : graph_of(graph)->nodes)
      for (const GraphNode *one : node->after) {
        begins.push_back(handle(one));
        ends.push_back(handle(node.get()));
      }
    require(count != nullptr && !from == !to, "no place for the number, or one list without the other");
    size_t room = *count;
    fill(begins, from, count);
    if (to) fill(ends, to, &room);
    if (edges) std::memset(edges, 0, *count * sizeof *edges);
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}

EMU_API CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *list, CudaGraphEdge *edges,
                                               size_t *count) {
  return api("cuGraphNodeGetDependencies", [&] {
    Lock lock(process().mutex);
    fill(handles(object<GraphNode>(node).after), list, count);
    if (edges) std::memset(edges, 0, *count * sizeof *edges);
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *list, size_t *count) {
  return cuGraphNodeGetDependencies_v2(node, list, nullptr, count);
}

EMU_API CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *list, CudaGraphEdge *edges,
                                                 size_t *count) {
  return api("cuGraphNodeGetDependentNodes", [&] {
    Lock lock(process().mutex);
    const GraphNode &asked = object<GraphNode>(node);
    std::vector<CUgraphNode> behind;
    for (const auto &other : asked.graph->nodes)
      if (std::count(other->after.begin(), other->after.end(), &asked)) behind.push_back(handle(other.get()));
    fill(behind, list, count);
    if (edges) std::memset(edges, 0, *count * sizeof *edges);
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *list, size_t *count) {
  return cuGraphNodeGetDependentNodes_v2(node, list, nullptr, count);
}

EMU_API CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                           const CudaGraphEdge *, size_t count) {
  return api("cuGraphAddDependencies", [&] {
    Lock lock(process().mutex);
    auto owner = graph_of(graph);
    auto begins = nodes_of(from, count), ends = nodes_of(to, count);
    for (size_t i = 0; i < count; i++) {
      require(begins[i]->graph == owner.get() && ends[i]->graph == owner.get(), "nodes of another graph");
      auto &after = ends[i]->after;
      require(!std::count(after.begin(), after.end(), begins[i]), "a dependency that is there already");
      after.push_back(begins[i]);
    }
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

EMU_API CUresult cuGraphRemoveDependencies_v2(CUgraph, const CUgraphNode *from, const CUgraphNode *to,
                                              const CudaGraphEdge *, size_t count) {
  return api("cuGraphRemoveDependencies", [&] {
    Lock lock(process().mutex);
    auto begins = nodes_of(from, count), ends = nodes_of(to, count);
    for (size_t i = 0; i < count; i++)
      require(std::erase(ends[i]->after, begins[i]) > 0, "a dependency that is not there");
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                           size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}

EMU_API CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
  return api_value("cuGraphNodeGetType", type, "type", [&] { return type_of(object<GraphNode>(node).work); });
}

EMU_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  const CalledAs name("cuGraphInstantiateWithFlags");
  return instantiate(exec, graph, flags);
}
EMU_API CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *, char *log, size_t log_bytes) {
  const CalledAs name("cuGraphInstantiate");
  if (log && log_bytes) *log = '\0';
  return instantiate(exec, graph, 0);
}
EMU_API CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *, char *log, size_t log_bytes) {
  const CalledAs name("cuGraphInstantiate");
  return cuGraphInstantiate_v2(exec, graph, nullptr, log, log_bytes);
}
EMU_API CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CudaGraphInstantiate *parameters) {
  const CalledAs name("cuGraphInstantiateWithParams");
  if (!parameters) return api("cuGraphInstantiateWithParams", [] { return CUDA_ERROR_INVALID_VALUE; });
  CUresult result = instantiate(exec, graph, parameters->flags);
  constexpr int invalid_structure = 2;
  parameters->error_node = nullptr;
  parameters->result = result == CUDA_SUCCESS ? 0 : invalid_structure;
  return result;
}

EMU_API CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return api("cuGraphExecDestroy", [&] {
    Lock lock(process().mutex);
    erase_owned(executables(), &object<GraphExec>(handle));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags) {
  return api_value("cuGraphExecGetFlags", flags, "flags", [&] { return object<GraphExec>(handle).flags; });
}

EMU_API CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  return api("cuGraphUpload", [&] {
    Lock lock(process().mutex);
    object<GraphExec>(handle);
    stream_of(stream);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return api("cuGraphLaunch", [&] {
    Lock lock(process().mutex);
    GraphExec &exec = object<GraphExec>(handle);
    Stream &stream = stream_of(stream_handle);
    for (const GraphExec::Step &step : exec.steps)
      if (step.enabled) check(*stream.context, step.work);
    if (!stream.capture) {
      enqueue_steps(stream, exec);
      return CUDA_SUCCESS;
    }
    auto child = std::shared_ptr<Graph>(new Graph);
    std::vector<GraphNode *> nodes;
    for (const GraphExec::Step &step : exec.steps) {
      std::vector<GraphNode *> after;
      for (size_t one : step.after) after.push_back(nodes[one]);
      nodes.push_back(child->add(step.work, after));
    }
    capture_work(stream, ChildWork{child});
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphExecUpdate_v2(CUgraphExec handle_exec, CUgraph graph, CudaGraphUpdateInfo *info) {
  return api("cuGraphExecUpdate", [&] {
    Lock lock(process().mutex);
    require(info != nullptr, "no place for the result");
    GraphExec &exec = object<GraphExec>(handle_exec), fresh;
    plan(graph_of(graph), fresh);
    const GraphNode *node = nullptr;
    info->result = difference(exec, fresh, node);
    info->error_node = node ? handle(node) : nullptr;
    info->error_from_node = nullptr;
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph differs in more than parameters");
    for (size_t i = 0; i < exec.steps.size(); i++) exec.steps[i].work = fresh.steps[i].work;
    exec.keep.insert(exec.keep.end(), fresh.keep.begin(), fresh.keep.end());
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  return api("cuGraphNodeSetEnabled", [&] {
    Lock lock(process().mutex);
    step_of(exec, node).enabled = enabled != 0;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled) {
  return api_value("cuGraphNodeGetEnabled", enabled, "flag", [&] { return step_of(exec, node).enabled; });
}

/// Version 1 says less of the difference.
EMU_API CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result) {
  CudaGraphUpdateInfo info = {};
  CUresult updated = cuGraphExecUpdate_v2(exec, graph, &info);
  if (node) *node = info.error_node;
  if (result) *result = info.result;
  return updated;
}
