// How long the calls of `fa run` take.
#pragma once

#include <cstdint>
#include <functional>

namespace fa::tool {

/// Makes a call, then that many more under a progress bar (0: none), and prints the median of their times, or else that
/// of the first. pass names the line; then, if given, follows the first call.
void time_calls(const char *pass, int64_t repeat, double flops, const std::function<void()> &call,
                const std::function<void()> &then = {});

}  // namespace fa::tool
