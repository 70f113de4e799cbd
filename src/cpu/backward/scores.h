// dbias and dsinks. The item that owns a tile of dbias recomputes its scores and sums their gradients over broadcast
// dimensions, in order.
#pragma once

#include "cpu/backward/plan.h"

namespace fa::cpu {

/// The number of items, and the bytes of scratch that one needs after the kernel's.
Count score_items(const BackwardCall &call, const BackwardMicrokernel &microkernel);
Count score_bytes(const BackwardCall &call, const BackwardMicrokernel &microkernel);

/// Computes item i of score_items.
void compute_scores(const BackwardPlan &plan, int64_t i, char *scratch);

}  // namespace fa::cpu
