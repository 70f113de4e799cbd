// Gradients that belong to scores: dbias, and dsinks. What an element of dbias repeats over is summed by the item that
// owns its tile, in order; its scores are computed once more for it.
#pragma once

#include "cpu/backward/plan.h"

namespace fa::cpu {

/// Items of work, and the bytes of scratch that one needs behind the kernel's.
Count score_items(const BackwardCall &call, const BackwardScheme &scheme);
Count score_bytes(const BackwardCall &call, const BackwardScheme &scheme);

/// Computes item i of score_items.
void compute_scores(const BackwardPlan &plan, int64_t i, char *scratch);

}  // namespace fa::cpu
