// Counts of a launch's memory traffic, as profilers count it: bank conflicts of shared memory, sectors of global
// memory.
#pragma once

#include <mutex>

#include "exec/launch.h"

namespace fa::emu::check {

/// Adds one warp's access to the counters of its cluster, which Launch::traffic receives when it has ended.
class Counters {
 public:
  void access(const Access &access);
  /// Adds the counts since the last call to a launch's.
  void flush(Launch &launch);

 private:
  void shared(const Access &access);
  void global(const Access &access);

  Traffic traffic_;
};

}  // namespace fa::emu::check
