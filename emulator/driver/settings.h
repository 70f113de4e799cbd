// The settings in the environment: the only place that reads FA_EMU_ variables.
//
//   FA_EMU_DEVICE   sm_90a            devices, separated by commas, or none; sm_80 by default. One not known, such as
//                                     sm_130, has the limits of the nearest lower one, under a name that says so and
//                                     with a warning on stderr. Differences from a generation's usual board are
//                                     behind colons, as in sm_80:sms=14:memory=10G:pageable :
//                                       sms=14      multiprocessors, of which a MIG slice has fewer
//                                       taken=2     multiprocessors that another kernel holds: no block gets there
//                                       slow=1      multiprocessors at half speed, the first ones
//                                       paced       multiprocessors run side by side, as fast as they count warp
//                                                   instructions, on one thread of the host; taken and slow imply it
//                                       memory=10G  memory, whatever FA_EMU_MEMORY says
//                                       shared=64K  shared memory of a block (by opting in) and of a multiprocessor
//                                       l2=5M       the size of the L2 that programs see
//                                       pageable    kernels reach all memory of the host
//                                       ats         the same, by the host's own page tables
//                                       nopools     no memory in the order of streams
//                                       busy        no contexts, as another process has the device for itself
//                                       apart       kernels see registered memory, which must be mapped as shared, at
//                                                   other addresses than the host
//   FA_EMU_CHECK    1                 watch for races, uninitialised memory and the like; 2: a finding fails the
//                                     launch, with CUDA_ERROR_LAUNCH_FAILED
//   FA_EMU_FAIL_ON  error             the least severity that fails a launch (FA_EMU_CHECK=2) or a process
//                                     (FA_EMU_EXIT): error, warning or formal
//   FA_EMU_EXIT     1                 a process that would exit with 0 after findings exits with 10 (errors), 11
//                                     (warnings) or 12 (formal)
//   FA_EMU_SUPPRESS file              findings that are left out: see driver/suppressions.h
//   FA_EMU_SEED     7                 vary schedules and landing times; 0: in order
//   FA_EMU_STARTS   reversed          the order in which the blocks of a grid begin: ascending, reversed, or shuffled,
//   which
//                                     varies with the seed. CUDA promises none, and GPUs mostly go up. By default up;
//                                     of every eight seeds one reverses it (5, 13, ...) and one shuffles it (6, 14,
//                                     ...)
//   FA_EMU_THREADS  2                 threads of the host for a launch. By default all cores; one under a seed, and one
//                                     where checks watch blocks that exchange data (atomics, strong accesses), so that
//                                     every run is the same
//   FA_EMU_TIMEOUT  60                seconds after which a launch fails, with CUDA_ERROR_LAUNCH_TIMEOUT and where its
//                                     warps are
//   FA_EMU_PROGRESS 5                 a line on stderr about a launch that runs, at this interval in seconds
//   FA_EMU_REPORT   1                 time and instruction mix of each launch on stderr; 2: memory counters too
//   FA_EMU_JSON     file              all of it as JSON lines, appended to the file
//   FA_EMU_TOTALS   file              when the process ends: a line of JSON with sums over its launches, appended to it
//   FA_EMU_TIMELINE file              the activity of the first blocks' warps, as a trace for chrome://tracing and
//                                     fa-emu-timeline
//   FA_EMU_DRIVER   13000             the driver's version of CUDA, which cuDriverGetVersion returns: the functions
//   that it
//                                     has, the newest PTX, zstd in fat binaries (12.4), programmatic dependencies in
//                                     captures (12.3)
//   FA_EMU_MEMORY   1G                memory of each device
//   FA_EMU_FAIL     3                 lets the third call of the API fail, with CUDA_ERROR_UNKNOWN; cuMemAlloc or
//                                     cuMemAlloc:2: the first or second call of that function, by its name without a
//                                     version
//   FA_EMU_FP8_SUMS exact             sums of 8-bit floating point products: as the hardware forms them, by default,
//   with
//                                     13 bits of mantissa on SM 89 (mma.sync) and SM 90 (wgmma); or exact there, too
//   FA_EMU_CAPTURE_CONTEXT  refuse    cuStreamGetCtx and cuStreamGetDevice of a stream that captures fail with
//                                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and invalidate the capture, as a strict
//                                     driver does; allow, the default: they succeed
//   FA_EMU_QUIET    1                 no reasons of refused calls, no findings and no summary on stderr; a kernel's
//                                     faults are reported all the same
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/devices.h"
#include "driver/suppressions.h"
#include "exec/launch.h"

namespace fa::emu::driver {

/// The call that fails: of a function, or, where that is empty, of all.
struct FailedCall {
  std::string function;
  uint64_t number = 0;  // 0: none
};

struct Settings {
  std::vector<DeviceLimits> devices;
  RunOptions run;
  bool strict = false;  // a finding is a fault
  Severity fail_on = Severity::error;
  bool exits = false;  // findings change the process's exit status
  std::string suppression_file;
  std::vector<Suppression> suppressions;
  bool report = false;
  std::string json, timeline;
  int driver_version = 13000;
  FailedCall fails;
  bool quiet = false;
  bool short_sums = true;               // of 8-bit floating point products, on the SMs that have them
  bool refuse_capture_context = false;  // of a stream that captures, its context and device
  std::vector<std::string> errors;      // invalid variables, for stderr
  std::vector<std::string> warnings;    // settings whose effect may surprise
  std::string totals;                   // a file: see totals.h
};

/// Read once, on first use.
const Settings &settings();

}  // namespace fa::emu::driver
