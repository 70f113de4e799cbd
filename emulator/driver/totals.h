// FA_EMU_TOTALS: the sums over all launches of a process, a line of JSON in a file. Unlike FA_EMU_JSON it costs no
// time, so that whole suites can be counted (bench/totals.py).
#pragma once

#include "exec/launch.h"

namespace fa::emu::driver {

/// A launch that is over counts.
void add_to_totals(const Launch &launch);
/// At the process's end the line is written, unless the process launched nothing.
void write_totals_at_exit();
/// In a process that has been forked: the parent's launches are not its own.
void forget_totals();

}  // namespace fa::emu::driver
