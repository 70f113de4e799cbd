// The speed of memory: reads and copies that compute nothing, to compare calls with that are bound by memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fa::tool {

/// Memory that is read or, where `to` is given, copied there.
struct MemoryMove {
  const void *from;
  size_t bytes;
  void *to = nullptr;
};

/// Seconds of all moves, of each an equal share by each thread, without the time to start threads. Few bytes take fewer
/// threads.
double move_seconds(std::span<const MemoryMove> moves, int32_t threads);

}  // namespace fa::tool
