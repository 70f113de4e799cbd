// The picture of `fa bench --plot`: a bar for each case.
#pragma once

#include <string>

#include "bench_report.h"

namespace fa::tool {

/// SVG of a run: the rate of each case, GB/s where memory bounds it and GFLOP/s elsewhere, with the 95 % interval of
/// its median as a line, and a tick at the rate of a plain move of its memory. Bars of a unit have one scale. With
/// changes of a baseline, whose bars are above those of the run, only their cases are drawn.
std::string bench_svg(const BenchRun &run, const std::vector<Change> &changes);

}  // namespace fa::tool
