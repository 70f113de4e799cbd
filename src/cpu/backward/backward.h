// The backward pass of a call: its gradients in the order of their dependencies, shared out among workers.
#pragma once

#include "cpu/backward/plan.h"
#include "cpu/team.h"

namespace fa::cpu {

/// Computes what the plan's call asks for.
void run_backward(const BackwardPlan &plan, const Team &team);

}  // namespace fa::cpu
