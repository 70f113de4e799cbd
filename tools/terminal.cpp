#include "terminal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "error.h"

namespace fa::tool {

namespace {

bool can_redraw() {
  const char *terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) && terminal && std::string_view(terminal) != "dumb";
}

int terminal_columns() {
  struct winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string duration_text(double seconds) {
  if (!(seconds >= 0 && seconds < 1e7)) return "--:--";
  const int64_t s = std::llround(seconds);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string progress_line(std::string_view label, int64_t done, int64_t total, double seconds, int columns) {
  done = std::clamp<int64_t>(done, 0, std::max<int64_t>(total, 0));
  const double fraction = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const double left = done > 0 ? seconds * (1 - fraction) / fraction : -1;
  const std::string tail = fmt::format(" {:3}% {}/{} {:.1f}/s ETA {} ", static_cast<int>(100 * fraction), done, total,
                                       rate, duration_text(left));
  const int bar = std::min(30, columns - static_cast<int>(tail.size()) - 3);
  std::string line;
  if (bar >= 5) {
    const auto full = static_cast<size_t>(std::floor(fraction * bar));
    line = fmt::format("[{}{}]", std::string(full, '#'), std::string(static_cast<size_t>(bar) - full, '.'));
  }
  line += tail;
  line += label;
  // A terminal wraps when its last column is filled, so that one stays free.
  if (const auto room = static_cast<size_t>(std::max(columns - 1, 0)); line.size() > room) line.resize(room);
  return line;
}

Progress::Progress(int64_t total) : total_(total), shown_(can_redraw()) {}

void Progress::update(int64_t done, std::string_view label) {
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  if (drawn_ && done < total_ && now - last_ < std::chrono::milliseconds(100)) return;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  fmt::print(stderr, "\r\033[K{}", progress_line(label, done, total_, seconds, terminal_columns()));
  std::fflush(stderr);
  last_ = now;
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

namespace {

constexpr std::array numbers = {SIGINT, SIGTERM, SIGHUP};

// Written by the handler.
volatile std::sig_atomic_t noted = 0;
std::array<struct sigaction, numbers.size()> before;

void restore() {
  for (size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &before[i], nullptr);
}

extern "C" void note(int number) {
  noted = number;
  restore();
}

}  // namespace

Interruption::Interruption() {
  noted = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    sigaction(numbers[i], nullptr, &before[i]);
    if (before[i].sa_handler == SIG_IGN) continue;  // nohup
    struct sigaction action = {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    sigaction(numbers[i], &action, nullptr);
  }
}

Interruption::~Interruption() {
  restore();
}

bool Interruption::requested() const {
  return noted != 0;
}

void Interruption::end() {
  restore();
  raise(noted);
  std::exit(exit_failure);  // where the signal is blocked
}

}  // namespace fa::tool
