// The handler only counts: workers look at the count, and say where they are.
#include "driver/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>

namespace fa::emu::driver {
namespace {

constexpr int pauses = 1000;
constexpr useconds_t pause_between = 1000;  // until other launches have said where they are

std::atomic<uint32_t> interrupts{0};            // signals so far
std::atomic<uint32_t> running{0}, reported{0};  // launches
struct sigaction before;

bool is_default() {
  return !(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_DFL;
}

/// Async-signal-safe.
void end_by_default() {
  sigaction(SIGINT, &before, nullptr);
  raise(SIGINT);
}

void handle(int signal, siginfo_t *info, void *context) {
  bool again = interrupts.fetch_add(1) > 0;
  if (is_default()) {
    if (again || running == 0) end_by_default();
  } else if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, context);
  } else {
    before.sa_handler(signal);
  }
}

void say(const Launch &launch) {
  std::string text = "fa-emu: interrupted: " + progress_of(launch) + "\n";
  for (const std::string &line : describe(launch.positions)) text += "fa-emu:   " + line + "\n";
  std::fputs(text.c_str(), stderr);
  reported++;
  if (!is_default()) return;
  for (int i = 0; i < pauses && reported < running; i++) usleep(pause_between);
  end_by_default();
}

}  // namespace

void watch_interrupts() {
  sigaction(SIGINT, nullptr, &before);
  if (!(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_IGN) return;
  struct sigaction own {};
  own.sa_sigaction = handle;
  own.sa_mask = before.sa_mask;
  own.sa_flags = before.sa_flags | SA_SIGINFO;
  sigaction(SIGINT, &own, nullptr);
}

Interruptible::Interruptible(Launch &launch) {
  launch.interrupts = &interrupts;
  launch.on_positions = [&launch] { say(launch); };
  running++;
}

Interruptible::~Interruptible() {
  // The signal came while the launch was ending, and no worker has looked.
  if (--running == 0 && interrupts > 0 && is_default()) end_by_default();
}

std::string progress_of(const Launch &launch) {
  uint64_t size = launch.cluster_size(), ended = launch.ended_clusters * size;
  char text[160];
  std::snprintf(text, sizeof text, ": %llu of %llu blocks done, %llu running, %llu warp instructions, %.1f s",
                static_cast<unsigned long long>(ended), static_cast<unsigned long long>(launch.cta_count()),
                static_cast<unsigned long long>(launch.resident), static_cast<unsigned long long>(launch.executed),
                launch.elapsed());
  return "kernel " + readable_name(launch.program->name) + text;
}

}  // namespace fa::emu::driver
