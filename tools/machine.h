// The machine, for `fa info` and for the context of a benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fa::tool {

struct Machine {
  std::string system;             // "Linux 6.1.0 x86_64"
  std::string cpu;                // the model's name, "unknown" where the system does not report it
  std::vector<std::string> isas;  // instruction sets that matter to attention, as the system names them
  int cpus_online = 0;
  int cpus_usable = 0;    // by this process: its affinity
  double cpu_quota = 0;   // CPUs that the control groups grant; 0: no limit
  double memory_gib = 0;  // 0 where the system does not report it
};

Machine this_machine();

/// The bytes that programs may still allocate, swap included; 0 where the system does not say.
double free_memory();

/// The threads of a call that does not name a number: FA_NUM_THREADS, else those that this process may use.
int32_t default_threads();

/// The bytes of memory whose use empties all caches of earlier data.
size_t cold_bytes();

/// The instruction sets among the flags of a /proc/cpuinfo text that matter here, in its words.
std::vector<std::string> isas_in(const std::string &cpuinfo);

/// The value of a "key : value" line of /proc/cpuinfo, or "".
std::string cpuinfo_value(const std::string &cpuinfo, const std::string &key);

}  // namespace fa::tool
