// The load balance of a launch whose multiprocessors are paced, a part of its report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/launch.h"

namespace fa::emu::driver {

/// The end of a paced launch, next to the end of the same work in equal shares.
struct LoadBalance {
  uint64_t end = 0;
  double even = 0;                // the end with each multiprocessor's work in proportion to its speed
  uint64_t fewest = 0, most = 0;  // blocks of one that has room for them
};
/// std::nullopt for launches that are not paced.
std::optional<LoadBalance> load_balance_of(const Launch &launch);

void print(const Launch &launch, const LoadBalance &balance);
/// Fields of an object, with a comma before.
std::string json_of(const Launch &launch, const LoadBalance &balance);

}  // namespace fa::emu::driver
