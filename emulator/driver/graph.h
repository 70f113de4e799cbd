// Graphs: nodes of work and the order between them; and executable graphs, which are copies in an order that works.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "driver/cuda_structs.h"
#include "driver/state.h"

namespace fa::emu::driver {

struct Graph;

struct GraphNode : Handled {
  Graph *graph = nullptr;
  Work work;
  std::vector<GraphNode *> after;
  uint64_t id = 0;
  const GraphNode *original = nullptr;  // that it was cloned from
  std::vector<void *> parameters;       // of a kernel, where they were asked for
};

struct Graph : Handled {
  std::vector<std::unique_ptr<GraphNode>> nodes;
  std::vector<uint64_t> memory;             // allocated by its nodes; lives as long as the graph
  std::vector<std::shared_ptr<void>> kept;  // user objects, whose references the graph holds

  Graph() = default;
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;
  ~Graph();
  GraphNode *add(Work work, std::vector<GraphNode *> after);
  void remove(GraphNode *node);
  /// A copy with new nodes, in the same order.
  std::shared_ptr<Graph> clone() const;
  /// Nodes, each behind those that it waits for; empty where there is a cycle.
  std::vector<const GraphNode *> order() const;
};

struct GraphExec : Handled {
  struct Step {
    Work work;
    std::vector<size_t> after;
    const GraphNode *origin = nullptr;
    bool enabled = true;
  };
  std::vector<Step> steps;
  std::vector<std::shared_ptr<Graph>> keep;  // memory of the graphs that it was made from
  cuuint64_t flags = 0;
  Done last;  // launches of one executable graph do not overlap
};

/// A handle for a graph, which lives until it is destroyed.
CUgraph adopt(std::shared_ptr<Graph> graph);
CUgraph handle_while_capturing(const std::shared_ptr<Graph> &graph);
std::shared_ptr<Graph> graph_of(CUgraph handle);
void destroy_graph(CUgraph handle);
std::vector<GraphNode *> nodes_of(const CUgraphNode *handles, size_t count);
int type_of(const Work &work);

/// A node's step in an executable graph; refuses nodes of other graphs.
GraphExec::Step &step_of(CUgraphExec exec, CUgraphNode node);
/// Flattens a graph; refuses circles.
void plan(const std::shared_ptr<Graph> &graph, GraphExec &exec);
/// Enqueues all steps behind the stream's operations.
void enqueue_steps(Stream &stream, GraphExec &exec);

/// Work from the API's structures.
KernelWork kernel_work(const CudaKernelNode &node, Context &context);
CopyWork copy_work(const CudaCopy3D &copy);
SetWork set_work(const CudaMemsetNode &node);

}  // namespace fa::emu::driver
