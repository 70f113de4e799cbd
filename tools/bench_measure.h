// Measures cases in rounds: every case once a round, so that a slow minute of the machine falls on all of them alike
// and shows in the spread of each. Cold cases, whose caches may fill the memory, are measured one after another.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench_case.h"

namespace fa::tool {

struct Measurement {
  BenchCase c;
  std::string kernel;           // the one that ran
  double flops = 0, bytes = 0;  // of one call
  std::vector<double> seconds;  // of one call; the median of each round
  // Of a case that is bound by memory, on a CPU: memcpy of as many bytes, or merely reading its keys and values,
  // alternating with the calls.
  std::string plain;  // "memcpy", "read"; "": not measured
  double plain_bytes = 0;
  std::vector<double> plain_seconds;
};

struct MeasureOptions {
  int64_t rounds = 15;
  double seconds = 0.05;                // of each case in each round
  std::function<void()> at_round = {};  // called before each round, where it is one, of cases in common or a cold one
};

/// Calls progress(done, total, case) before each step. Once stopped() is true, returns the cases measured so far, with
/// the rounds that they have. Throws BadInput or Failure as the library does, and Failure where memory is too short.
std::vector<Measurement> measure(const std::vector<BenchCase> &cases, const MeasureOptions &options,
                                 const std::function<void(int64_t, int64_t, const BenchCase &)> &progress,
                                 const std::function<bool()> &stopped);

}  // namespace fa::tool
