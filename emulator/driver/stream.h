// Streams and events: names for places in the order of operations.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "driver/cuda_structs.h"
#include "driver/handled.h"
#include "driver/queue.h"

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
  std::vector<GraphNode *> capture_after;        // the nodes that its next captured operation waits for

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

}  // namespace fa::emu::driver
