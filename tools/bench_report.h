// The outputs of `fa bench`: a table, JSON, and the verdict between two runs.
#pragma once

#include <string>
#include <vector>

#include "bench_ceilings.h"
#include "bench_measure.h"
#include "stats.h"

namespace fa::tool {

/// A run as it is kept: measurements, and where they were taken.
struct BenchRun {
  std::string version;  // of the library
  std::string cpu;
  std::vector<Measurement> measurements;
  std::vector<Ceiling> ceilings = {};  // of this machine, none where they were not measured
};

std::string json_of(const BenchRun &run);

/// Reads the JSON of json_of. Throws BadInput, naming the file and its error.
BenchRun parse_bench_run(const std::string &text, const std::string &name);

/// A line for each measurement: median, its confidence interval, GFLOP/s, GB/s; and one for the plain move of memory
/// that it is compared with.
void print_table(const std::vector<Measurement> &measurements);

/// A line for each ceiling.
void print_ceilings(const std::vector<Ceiling> &ceilings);

/// A case that both runs have.
struct Change {
  const Measurement *base, *current;
  Ratio ratio;
  Verdict verdict;
};

/// Throws BadInput when the runs have no case in common.
std::vector<Change> changes_between(const BenchRun &base, const BenchRun &current, double threshold);

/// Prints each change with its verdict; the number of cases that are slower.
int print_changes(const BenchRun &base, const BenchRun &current, const std::vector<Change> &changes, double threshold);

}  // namespace fa::tool
