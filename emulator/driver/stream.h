// Streams and events: names for places in the order of operations.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "driver/cuda_structs.h"
#include "driver/handled.h"
#include "driver/queue.h"
#include "driver/work.h"

namespace fa::emu::driver {

struct Context;
struct Capture;
struct GraphNode;

struct Stream : Handled {
  Context *context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false;
  std::map<int, CudaAttributeValue> attributes;  // as they were set
  Done last;                                     // its newest operation
  std::shared_ptr<Capture> capture;              // while it captures
  std::vector<GraphNode *> capture_after;        // what its next captured operation waits for

  bool blocking() const { return !legacy && !(flags & CU_STREAM_NON_BLOCKING); }
};

struct Event : Handled {
  Context *context = nullptr;
  unsigned flags = 0;
  Done recorded;                   // null: never
  std::weak_ptr<Capture> capture;  // recorded in a capture, which still goes on
  bool captured = false;           // the newest record was in a capture
  std::vector<GraphNode *> after;  // where in it
};

/// The stream of a handle, which may be null, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD. Refuses others than the current
/// context's, and what the legacy stream may not do while streams capture.
Stream &stream_of(CUstream handle);
/// Hands work to the GPU, or to the capture that the stream takes part in.
void submit(Stream &stream, Work work);
/// Everything that a stream's next operation waits for.
std::vector<Done> order_of(const Stream &stream);
/// Enqueues work behind operations, of which a kernel may overlap the last one; what is done when all of it is.
Done enqueue_work(Context &context, const Work &work, std::vector<Done> after, const Done &last);
/// Enqueues work behind a stream's operations.
void enqueue(Stream &stream, const Work &work);

/// While one lives, the calling thread's null stream is its own (the API's _ptsz and _ptds functions).
class PerThreadDefault {
 public:
  PerThreadDefault();
  ~PerThreadDefault();
  PerThreadDefault(const PerThreadDefault &) = delete;
  PerThreadDefault &operator=(const PerThreadDefault &) = delete;

 private:
  bool before_;
};

}  // namespace fa::emu::driver
