// Shared by the suites of `fa bench`: made-up measurements, and a folder for their files.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "arrays.h"
#include "bench_report.h"
#include "program.h"
#include "reference/random.h"
#include "temporary.h"

/// A run of two cases with noise of some per cent, the second case slowed down by a factor.
inline fa::tool::BenchRun made_up(uint64_t seed, double factor) {
  reference::Random random(seed);
  fa::tool::BenchRun run{"0.1.0", "a processor", {}};
  for (const double middle : {1e-3, 2e-3 * factor}) {
    fa::tool::Measurement m;
    m.c = fa::tool::parse_shape(middle == 1e-3 ? "1,2,2,64,64,32" : "1,2,2,128,128,32");
    m.kernel = "cpu.generic";
    m.flops = 1e6;
    m.bytes = 1e5;
    for (int i = 0; i < 15; ++i) m.seconds.push_back(middle * std::exp(0.02 * reference::normal(random.next())));
    run.measurements.push_back(m);
  }
  return run;
}

class Bench : public testing::Test {
 protected:
  test::TemporaryFolder folder;
  std::string saved(const char *name, const fa::tool::BenchRun &run) {
    return test::save(folder / name, fa::tool::json_of(run));
  }
  test::Finished compare(const std::string &base, const std::string &measured) {
    return test::fa({"bench", "--compare", base, "--measured", measured});
  }
};
