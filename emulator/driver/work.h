// The work of a stream or of a node of a graph, as data: parameters are copied when the call is made.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "driver/cuda.h"
#include "exec/launch.h"

namespace fa::emu::driver {

struct Context;
struct Event;
struct Graph;
struct Kernel;
struct Operation;

struct KernelWork {
  Kernel *kernel = nullptr;
  LaunchShape shape;
  std::vector<uint8_t> parameters;
  bool cooperative = false;
  bool programmatic = false;  // may start when the kernel before it lets dependents start
};

enum class Side : uint8_t { host, device, unified };

/// One end of a copy: the address of its first byte, and the distance of rows and planes.
struct CopyEnd {
  uint64_t address = 0;
  Side side = Side::unified;
  uint64_t pitch = 0, plane = 0;
};
struct CopyWork {
  CopyEnd from, to;
  uint64_t width = 0, height = 1, depth = 1;     // bytes, rows, planes
  std::shared_ptr<std::vector<uint8_t>> staged;  // the source, where it was taken at the call

  /// From the first byte to behind the last one.
  uint64_t span(const CopyEnd &end) const;
};

struct SetWork {
  uint64_t address = 0;
  uint64_t pitch = 0;
  uint32_t value = 0, element_bytes = 1;
  uint64_t width = 0, height = 1;  // elements, rows
};

struct HostWork {
  CUhostFn function = nullptr;
  void *argument = nullptr;
};

struct EventWork {
  Event *event = nullptr;
  bool record = false;  // else wait for it
};

struct AllocateWork {
  uint64_t address = 0, bytes = 0;
};
struct FreeWork {
  uint64_t address = 0;
};

/// A value that is written to memory, or waited for there.
struct ValueWork {
  enum Comparison : uint8_t { greater_or_equal, equal, any_bit, none_of_bits };
  uint64_t address = 0, value = 0;
  uint32_t bytes = 4;
  Comparison comparison = greater_or_equal;
  bool waits = false;  // else writes

  bool is_there() const;
  void write() const;
};

struct ChildWork {
  std::shared_ptr<Graph> graph;
};

struct EmptyWork {};

using Work = std::variant<EmptyWork, KernelWork, CopyWork, SetWork, HostWork, EventWork, AllocateWork, FreeWork,
                          ValueWork, ChildWork>;

/// Checks everything that can be checked before the work runs; refuses.
void check(Context &context, const Work &work);
/// Does the work, as that operation. A fault becomes the context's sticky error. Not for events and children, which are
/// order alone.
void perform(Context &context, const Work &work, Operation &operation);

}  // namespace fa::emu::driver
