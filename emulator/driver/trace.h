// FA_EMU_TIMELINE: launches as a trace that chrome://tracing and ui.perfetto.dev show. A process is a block, a thread a
// warp; a microsecond of the trace is an instruction of a warp.
#pragma once

#include "exec/launch.h"

namespace fa::emu::driver {

/// Adds the launch's timeline to the settings' file.
void write_timeline(const Launch &launch);

}  // namespace fa::emu::driver
