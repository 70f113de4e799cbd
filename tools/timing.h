// The times of calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace fa::tool {

/// Runs call() `count` times; the seconds of all together.
template <class Call>
double seconds_of(int64_t count, Call call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A rate to print: the operations or bytes of a call in a second.
struct Throughput {
  double of_call;
  const char *unit;  // of 1e9 a second: "GFLOP/s"
};

/// Makes a call, then `repeat` more under a progress bar, and prints the median of their times, or without them the
/// time of the first. pass: the first word of the printed line; then(), if given, follows the first call.
void time_calls(const char *pass, int64_t repeat, Throughput throughput, const std::function<void()> &call,
                const std::function<void()> &then = {});

}  // namespace fa::tool
