// Operations of graphs: growing, copying, ordering, being enqueued.
#include "driver/graph.h"

#include <algorithm>
#include <map>

#include "driver/memory_table.h"

namespace fa::emu::driver {
namespace {

std::map<const Graph *, std::shared_ptr<Graph>> &graphs() {
  static auto *const all = new std::map<const Graph *, std::shared_ptr<Graph>>;
  return *all;
}

void append(const std::shared_ptr<Graph> &graph, GraphExec &exec, std::vector<size_t> after,
            std::vector<size_t> &ends) {
  std::vector<const GraphNode *> order = graph->order();
  require(order.size() == graph->nodes.size(), "the graph goes in a circle");
  exec.keep.push_back(graph);
  std::map<const GraphNode *, std::vector<size_t>> steps_of;  // whose end is the node's end
  std::map<const GraphNode *, bool> waited_for;
  for (const GraphNode *node : order) {
    std::vector<size_t> before = node->after.empty() ? after : std::vector<size_t>();
    for (const GraphNode *one : node->after) {
      waited_for[one] = true;
      before.insert(before.end(), steps_of[one].begin(), steps_of[one].end());
    }
    if (const ChildWork *child = std::get_if<ChildWork>(&node->work)) {
      // An empty step first, so that an empty child still keeps the order.
      exec.steps.push_back({EmptyWork{}, before, node});
      append(child->graph, exec, {exec.steps.size() - 1}, steps_of[node]);
      continue;
    }
    exec.steps.push_back({node->work, before, node});
    steps_of[node] = {exec.steps.size() - 1};
  }
  for (const GraphNode *node : order)
    if (!waited_for[node]) ends.insert(ends.end(), steps_of[node].begin(), steps_of[node].end());
  if (order.empty()) ends = after;
}

}  // namespace

Graph::~Graph() {
  for (const auto &node : nodes) make_dead(node.get());
  for (uint64_t address : memory) release_allocation(address);
}

GraphNode *Graph::add(Work work, std::vector<GraphNode *> after) {
  for (const GraphNode *node : after) require(node->graph == this, "a dependency on a node of another graph");
  nodes.push_back(std::make_unique<GraphNode>());
  GraphNode *node = nodes.back().get();
  node->graph = this;
  node->work = std::move(work);
  node->after = std::move(after);
  node->id = ++process().ids;
  make_alive(node);
  return node;
}

void Graph::remove(GraphNode *node) {
  for (const auto &other : nodes) std::erase(other->after, node);
  make_dead(node);
  std::erase_if(nodes, [&](const auto &one) { return one.get() == node; });
}

std::shared_ptr<Graph> Graph::clone() const {
  auto copy = std::shared_ptr<Graph>(new Graph);
  std::map<const GraphNode *, GraphNode *> twin;
  for (const auto &node : nodes) {
    twin[node.get()] = copy->add(node->work, {});
    twin[node.get()]->original = node.get();
  }
  for (const auto &node : nodes)
    for (const GraphNode *one : node->after) twin[node.get()]->after.push_back(twin[one]);
  copy->kept = kept;
  for (const auto &node : copy->nodes)
    if (ChildWork *child = std::get_if<ChildWork>(&node->work)) child->graph = child->graph->clone();
  return copy;
}

std::vector<const GraphNode *> Graph::order() const {
  std::map<const GraphNode *, size_t> open;  // dependencies that have no place yet
  std::map<const GraphNode *, std::vector<const GraphNode *>> next;
  std::vector<const GraphNode *> result;
  for (const auto &node : nodes) {
    open[node.get()] = node->after.size();
    for (const GraphNode *one : node->after) next[one].push_back(node.get());
    if (node->after.empty()) result.push_back(node.get());
  }
  for (size_t i = 0; i < result.size(); i++)
    for (const GraphNode *node : next[result[i]])
      if (--open[node] == 0) result.push_back(node);
  return result.size() == nodes.size() ? result : std::vector<const GraphNode *>();
}

CUgraph adopt(std::shared_ptr<Graph> graph) {
  Graph *raw = graph.get();
  make_alive(raw);
  graphs()[raw] = std::move(graph);
  return handle_of<CUgraph>(raw);
}

CUgraph handle_while_capturing(const std::shared_ptr<Graph> &graph) {
  return adopt(graph);
}

std::shared_ptr<Graph> graph_of(CUgraph handle) {
  return graphs().at(&object<Graph>(handle));
}

void destroy_graph(CUgraph handle) {
  Graph *graph = &object<Graph>(handle);
  make_dead(graph);
  graphs().erase(graph);
}

std::vector<GraphNode *> nodes_of(const CUgraphNode *handles, size_t count) {
  require(count == 0 || handles != nullptr, "no nodes");
  std::vector<GraphNode *> result;
  for (size_t i = 0; i < count; i++) result.push_back(&object<GraphNode>(handles[i], CUDA_ERROR_INVALID_VALUE));
  return result;
}

int type_of(const Work &work) {
  struct {
    int operator()(const EmptyWork &) { return CU_GRAPH_NODE_TYPE_EMPTY; }
    int operator()(const KernelWork &) { return CU_GRAPH_NODE_TYPE_KERNEL; }
    int operator()(const CopyWork &) { return CU_GRAPH_NODE_TYPE_MEMCPY; }
    int operator()(const SetWork &) { return CU_GRAPH_NODE_TYPE_MEMSET; }
    int operator()(const HostWork &) { return CU_GRAPH_NODE_TYPE_HOST; }
    int operator()(const EventWork &one) {
      return one.record ? CU_GRAPH_NODE_TYPE_EVENT_RECORD : CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    }
    int operator()(const AllocateWork &) { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
    int operator()(const FreeWork &) { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
    int operator()(const ValueWork &) { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
    int operator()(const ChildWork &) { return CU_GRAPH_NODE_TYPE_GRAPH; }
  } type;
  return std::visit(type, work);
}

void plan(const std::shared_ptr<Graph> &graph, GraphExec &exec) {
  std::vector<size_t> ends;
  append(graph, exec, {}, ends);
}

}  // namespace fa::emu::driver
