// The person at the terminal: a progress bar, and Ctrl-C as a request to stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace fa::tool {

/// The bar's line for `done` of `total` units after `seconds`, at most `columns` wide: the progress, its speed, and how
/// long the rest takes at that rate.
std::string progress_line(std::string_view label, int64_t done, int64_t total, double seconds, int columns);

/// "1:05", "2:03:04", "--:--" for an unknown time.
std::string duration_text(double seconds);

/// Draws at most ten times a second, and wipes its line at the end.
class Progress {
 public:
  /// Shown when the standard error is a terminal that can redraw a line.
  explicit Progress(int64_t total);
  ~Progress() { clear(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Shows the progress and the next label.
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

/// While one lives, the first SIGINT, SIGTERM or SIGHUP is noted; a second one has its former effect. There is one at
/// a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption &) = delete;
  Interruption &operator=(const Interruption &) = delete;

  bool requested() const;

  /// Ends the program by the signal that came, so that whoever started it sees that.
  [[noreturn]] void end();
};

}  // namespace fa::tool
