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

/// The work of a call, and the name of its rate.
struct Amount {
  double count;
  const char *rate;  // of 1e9 of them: "GFLOP/s"
};

/// Makes a call, then that many more under a progress bar (0: none), and prints the median of their times, or else that
/// of the first. pass names the line; then, if given, follows the first call.
void time_calls(const char *pass, int64_t repeat, Amount work, const std::function<void()> &call,
                const std::function<void()> &then = {});

}  // namespace fa::tool
