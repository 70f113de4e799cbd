// Stream capture: while a stream captures, its calls become nodes of a graph, and calls that cannot become one fail and
// invalidate the capture (CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture").
#pragma once

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "driver/graph.h"
#include "driver/state.h"

namespace fa::emu::driver {

struct Capture {
  std::shared_ptr<Graph> graph;
  Stream *origin = nullptr;
  std::set<Stream *> streams;  // that take part
  std::thread::id thread;
  int mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t id = 0;
  bool invalid = false;
};

/// Lets a stream capture into a graph, behind nodes of it.
void begin_capture(Stream &stream, std::shared_ptr<Graph> graph, std::vector<GraphNode *> after, int mode);
/// Its streams capture no longer.
void end_capture(const std::shared_ptr<Capture> &capture);
/// Whether everything that the other streams captured comes before the origin's end.
bool is_joined(const Capture &capture);
/// Adds nodes that are not there yet.
void add_dependencies(std::vector<GraphNode *> &list, const std::vector<GraphNode *> &more);
/// Exchanges the calling thread's mode, which decides the calls that require_no_capture refuses.
void exchange_mode(int &mode);
/// Refuses calls that would wait for or allocate something, or load code, while a capture forbids them; invalidates it.
void require_no_capture();
/// The same for calls that wait for a whole context, which no capture of it allows.
void require_no_capture_in(Context &context);
/// The same for calls about one stream.
void require_not_capturing(Stream &stream);
/// Refuses the use of the legacy stream while a blocking stream of its context captures.
void require_legacy_allowed(Context &context);
/// Adds a node behind the stream's captured nodes.
void capture_work(Stream &stream, Work work);
/// cuEventRecord and cuStreamWaitEvent where a capture is involved; false where none is.
bool capture_record(Stream &stream, Event &event);
bool capture_wait(Stream &stream, Event &event);
/// Whether an event was last recorded in a capture; such ones can be neither queried nor timed.
void require_not_captured(const Event &event);
/// Takes a stream that ends out of its capture.
void forget(Stream &stream);

}  // namespace fa::emu::driver
