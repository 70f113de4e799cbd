// Adding launches up, and writing the sums when the process ends.
#include "driver/totals.h"

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>

#include "driver/json.h"
#include "driver/settings.h"

namespace fa::emu::driver {
namespace {

struct Totals {
  std::mutex mutex;
  uint64_t launches = 0;
  ExecutionCount instructions;
  double seconds = 0;
};

Totals &totals() {
  // Never destroyed: it is looked at when the process ends.
  static Totals *const instance = new Totals;
  return *instance;
}

/// Its arguments, separated by spaces.
std::string command_of_process() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!text.empty()) text.pop_back();
  for (char &c : text)
    if (c == '\0') c = ' ';
  return text;
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void write() {
  Totals &all = totals();
  std::lock_guard lock(all.mutex);
  if (all.launches == 0) return;
  const char *device = std::getenv("FA_EMU_DEVICE");
  std::string line = "{\"command\":" + quoted(command_of_process()) + ",\"device\":" + quoted(device ? device : "");
  auto add = [&](const char *name, auto value) { line += std::string(",\"") + name + "\":" + std::to_string(value); };
  add("check", settings().run.check ? 1 : 0);
  add("launches", all.launches);
  add("warp_instructions", all.instructions.warps);
  add("thread_instructions", all.instructions.lanes);
  add("seconds", all.seconds);
  add("processor_seconds", processor_seconds());
  line += "}\n";
  FILE *file = std::fopen(settings().totals.c_str(), "a");
  if (!file) {
    std::fprintf(stderr, "fa-emu: FA_EMU_TOTALS: '%s' cannot be written\n", settings().totals.c_str());
    return;
  }
  std::fwrite(line.data(), 1, line.size(), file);
  std::fclose(file);
}

}  // namespace

void add_to_totals(const Launch &launch) {
  if (settings().totals.empty()) return;
  Totals &all = totals();
  std::lock_guard lock(all.mutex);
  all.launches++;
  all.seconds += launch.seconds;
  for (const ExecutionCount &count : launch.counts) {
    all.instructions.warps += count.warps;
    all.instructions.lanes += count.lanes;
  }
}

void write_totals_at_exit() {
  if (!settings().totals.empty()) on_exit([](int, void *) { write(); }, nullptr);
}

void forget_totals() {
  Totals &all = totals();
  all.launches = 0;
  all.instructions = {};
  all.seconds = 0;
}

}  // namespace fa::emu::driver
