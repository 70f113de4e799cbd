// Programmatic dependent launch: which blocks have let the grids start that depend on theirs.
#pragma once

#include "exec/cta.h"

namespace fa::emu {

/// Whether a block has executed griddepcontrol.launch_dependents.
struct Trigger : State {
  bool done = false;
};

/// The cluster has ended: its blocks that have not let dependents start do so now.
void end_triggers(Cluster &cluster);

}  // namespace fa::emu
