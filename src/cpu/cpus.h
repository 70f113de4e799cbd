// The number of CPUs that this process may use: those of its affinity mask, and the time on them that control groups
// grant. The tool is compiled with this file as well: fa info reports both.
#pragma once

#include <cstdint>
#include <string>

namespace fa::cpu {

/// The CPUs that the calling thread may run on.
int32_t affinity_cpus();

/// The lowest quota of the process' control group and of those above it, in CPUs; 0 without one. Versions 1 and 2.
/// root: the folder that /proc and the mounts are looked for in.
double quota_cpus(const std::string &root = "");

/// The threads that this many CPUs and this quota (0: none) can keep busy, FA_MAX_THREADS at most. A part of a CPU
/// counts.
int32_t threads_for(int32_t cpus, double quota);

/// The default number of threads: those for the calling thread's CPUs, and for the quota that the process' first call
/// found.
int32_t usable_cpus();

}  // namespace fa::cpu
