#include "timing.h"

#include <fmt/format.h>

#include <vector>

#include "stats.h"
#include "terminal.h"
#include "text.h"

namespace fa::tool {

void time_calls(const char *pass, int64_t repeat, Throughput throughput, const std::function<void()> &call,
                const std::function<void()> &then) {
  const double first = seconds_of(1, call);
  if (then) then();
  if (repeat == 0) {
    fmt::print("{:<10} {}, the first call (--repeat N measures)\n", pass, seconds_text(first));
    return;
  }
  std::vector<double> seconds;
  Progress progress(repeat);
  for (int64_t i = 0; i < repeat; ++i) {
    seconds.push_back(seconds_of(1, call));
    progress.update(i + 1, "calls");
  }
  progress.clear();
  const double middle = median(seconds);
  const Interval interval = median_interval(seconds);
  fmt::print("{:<10} median {} of {} calls, 95 % within [{}, {}]: {:.1f} {}\n", pass, seconds_text(middle),
             seconds.size(), seconds_text(interval.low), seconds_text(interval.high),
             throughput.of_call / middle * 1e-9, throughput.unit);
}

}  // namespace fa::tool
