// How evenly the multiprocessors of a paced launch worked. A part of its report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/launch.h"

namespace fa::emu::driver {

/// How a paced launch's end compares with that of the same work in equal shares.
struct Evenness {
  uint64_t end = 0;
  double even = 0;                // the end with each multiprocessor's work in proportion to its speed
  uint64_t fewest = 0, most = 0;  // blocks of one that has room for them
};
/// Nothing of other launches.
std::optional<Evenness> evenness_of(const Launch &launch);

void print(const Launch &launch, const Evenness &evenness);
/// Fields of an object, with a comma before.
std::string json_of(const Launch &launch, const Evenness &evenness);

}  // namespace fa::emu::driver
