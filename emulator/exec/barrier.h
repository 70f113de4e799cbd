// The sixteen named barriers of a CTA.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cta.h"

namespace fa::emu {

struct Barrier {
  /// Lanes that wait, and where the result of a reduction goes: a predicate or a row of counts.
  struct Waiting {
    Warp *warp;
    uint32_t mask;
    uint32_t *predicate, *count;
    uint32_t kind;
  };
  uint32_t arrived = 0;   // threads; a warp counts as 32
  uint32_t expected = 0;  // threads; 0: all of the CTA that are alive
  uint32_t phase = 0;
  uint32_t reduction[3] = {0, 1, 0};  // popc, and, or of this phase
  uint32_t result[3] = {0, 0, 0};     // of the phase before
  std::vector<Waiting> waiting;
};

struct Barriers : State {
  Barrier barrier[16];
};

/// Completes barriers that waited for threads which have exited.
void threads_left(Cta &cta);

}  // namespace fa::emu
