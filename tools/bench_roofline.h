// The picture of a run under the ceilings of its machine.
#pragma once

#include <string>

#include "bench_report.h"

namespace fa::tool {

/// An SVG: operations a byte from left to right, GFLOP/s upwards, both logarithmic; the ceilings as lines, a numbered
/// point for each case with operations. Throws BadInput for a run without ceilings, or without such a case.
std::string roofline_svg(const BenchRun &run);

}  // namespace fa::tool
