// Seconds that calls take.
#pragma once

#include <chrono>
#include <cstdint>

namespace fa::tool {

/// Runs call() `count` times; the seconds of all together.
template <class Call>
double seconds_of(int64_t count, Call call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace fa::tool
