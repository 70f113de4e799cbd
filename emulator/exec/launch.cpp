// Running a grid on some host threads.
#include "exec/launch.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>
#include <thread>

#include "exec/helpers.h"
#include "exec/worker.h"

namespace fa::emu {
namespace {

uint32_t core_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<uint32_t>(std::max(CPU_COUNT(&set), 1));
  return std::max(std::thread::hardware_concurrency(), 1u);
}

/// Whether blocks may see which of them was first, by the data that they exchange.
bool communicates(const Launch &launch) {
  const Program &program = *launch.program;
  if (launch.grid_workspace || program.uses_heap) return true;
  for (const ProgramFunction &function : program.functions)
    for (const ptx::Instruction &instruction : program.module->functions[function.function].instructions) {
      const ptx::Opcode &opcode = program.module->opcodes[instruction.opcode];
      if (opcode.name == "cp" && opcode.has("reduce") && opcode.has("global")) return true;
      if (opcode.has("shared") || opcode.has("shared::cta") || opcode.has("shared::cluster")) continue;
      if (opcode.name == "atom" || opcode.name == "red" || opcode.name == "multimem") return true;
      if (opcode.name == "clusterlaunchcontrol") return true;
      if (opcode.name != "ld" && opcode.name != "st") continue;
      for (const char *strong : {"volatile", "relaxed", "acquire", "release", "mmio"})
        if (opcode.has(strong)) return true;
    }
  return false;
}

uint32_t thread_count(const Launch &launch) {
  const RunOptions &options = launch.options;
  uint32_t threads = options.threads ? options.threads : core_count();
  bool varied = options.seed != 0 || (options.check && threads > 1 && communicates(launch));
  // A finding under a seed or the checks must be there again in the next run, however busy the machine is.
  if ((options.threads == 0 && varied) || launch.paced) threads = 1;
  return static_cast<uint32_t>(std::min<uint64_t>(threads, launch.cluster_count()));
}

void shuffle_starts(Launch &launch) {
  launch.shuffled.resize(launch.cluster_count());
  std::iota(launch.shuffled.begin(), launch.shuffled.end(), uint64_t{0});
  std::mt19937_64 random(launch.options.seed);
  std::shuffle(launch.shuffled.begin(), launch.shuffled.end(), random);
}

/// Takes the place of a fault that one warp has.
Fault timeout_of(const Launch &launch) {
  Fault result;
  result.kind = FaultKind::timeout;
  result.kernel = launch.program->name;
  uint64_t ended = launch.ended_clusters * launch.cluster_size();
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", launch.options.timeout);
  result.message = "it ran longer than FA_EMU_TIMEOUT (" + std::string(seconds) + " s); " + std::to_string(ended) +
                   " of " + std::to_string(launch.cta_count()) + " blocks had finished";
  for (const std::string &line : describe(launch.positions)) result.message += "; " + line;
  return result;
}

}  // namespace

std::atomic<size_t> helper_threads = 0;

Traffic &Traffic::operator+=(const Traffic &other) {
  shared_read += other.shared_read;
  shared_written += other.shared_written;
  shared_requests += other.shared_requests;
  shared_passes += other.shared_passes;
  shared_passes_least += other.shared_passes_least;
  global_read += other.global_read;
  global_written += other.global_written;
  global_requests += other.global_requests;
  global_sectors += other.global_sectors;
  return *this;
}

void LaunchShape::first_block(uint64_t n, uint32_t (&id)[3]) const {
  for (int d = 0; d < 3; d++) {
    uint32_t clusters = grid[d] / cluster[d];
    id[d] = static_cast<uint32_t>(n % clusters) * cluster[d];
    n /= clusters;
  }
}

uint64_t Launch::cluster_at(uint64_t place) const {
  if (!shuffled.empty()) return shuffled[place];
  return options.starts == Starts::reversed ? cluster_count() - 1 - place : place;
}

std::optional<uint64_t> Launch::take_cluster() {
  for (uint64_t place = next_cluster; place < cluster_count();) {
    if (!next_cluster.compare_exchange_weak(place, place + 1)) continue;
    trigger(cluster_size());
    ended_clusters++;
    return cluster_at(place);
  }
  return {};
}

void Launch::trigger(uint64_t blocks) {
  if (blocks > 0 && triggers.fetch_add(blocks) + blocks == cta_count() && triggered) triggered();
}

std::optional<Fault> run(Launch &launch) {
  launch.begun = std::chrono::steady_clock::now();
  launch.next_progress = launch.options.progress;
  if (launch.options.starts == Starts::shuffled) shuffle_starts(launch);
  if (launch.paced) launch.shares.resize(launch.multiprocessors().count());
  std::optional<Fault> first;
  auto work = [&] {
    try {
      Worker(launch).run();
    } catch (Fault &caught) {
      std::lock_guard lock(launch.mutex);
      if (!first) first = std::move(caught);
      launch.stop = true;
    }
  };
  uint32_t threads = thread_count(launch);
  std::vector<std::thread> others;
  for (uint32_t t = 1; t < threads; t++) {
    others.emplace_back([&] {
      helper_threads++;
      work();
      helper_threads--;
    });
  }
  work();
  for (std::thread &thread : others) thread.join();
  launch.seconds = launch.elapsed();
  if (launch.overdue && !first) first = timeout_of(launch);
  return first;
}

}  // namespace fa::emu
