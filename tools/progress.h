// A progress bar on the standard error, shown only to a person: where that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace fa::tool {

/// The bar's line for `done` of `total` units after `seconds`, at most `columns` wide: what is done, how fast, and how
/// long the rest takes at that rate.
std::string progress_line(std::string_view label, int64_t done, int64_t total, double seconds, int columns);

/// "1:05", "2:03:04", "--:--" where there is none yet.
std::string duration_text(double seconds);

/// Draws at most ten times a second, and wipes its line at the end.
class Progress {
 public:
  /// Shown when the standard error is a terminal that can redraw a line.
  explicit Progress(int64_t total);
  ~Progress() { clear(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Tells how much is done and what comes next.
  void update(int64_t done, std::string_view label);

  /// Wipes the line, so that something else may be printed; the next update draws it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  int64_t total_;
  bool shown_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

}  // namespace fa::tool
