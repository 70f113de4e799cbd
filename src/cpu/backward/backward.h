// The backward pass of a call: its gradients in the order of their dependencies, distributed over workers.
#pragma once

#include "cpu/backward/plan.h"
#include "cpu/team.h"

namespace fa::cpu {

/// Computes the gradients of the plan's call.
void run_backward(const BackwardPlan &plan, const ThreadTeam &team);

}  // namespace fa::cpu
