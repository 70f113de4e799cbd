// Memory that is moved and not computed with, the measure of calls that move much and compute little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fa::tool {

/// A stretch of memory: read, or where `to` is given copied there.
struct Stretch {
  const void *from;
  size_t bytes;
  void *to = nullptr;
};

/// Seconds until all is moved, an equal share of each stretch by each thread; their start does not count. Shares that
/// are not worth a thread have none.
double plain_seconds(std::span<const Stretch> stretches, int32_t threads);

/// The threads of a call that does not name a number: FA_NUM_THREADS, else those that this process may use.
int32_t default_threads();

/// The bytes of memory whose use empties all caches of earlier data.
size_t cold_bytes();

}  // namespace fa::tool
