// A call's tasks, on the application's threads (desc.parallel_for) or in the pool.
#pragma once

#include "core/call.h"

namespace fa::cpu {

/// Runs task(ctx, i) for every i in [0, n), each in the default floating-point environment, and returns when all have
/// returned. caller: the calling thread's state on entry, which parallel_for must see.
void run_tasks(const Attention &attention, CallerState *caller, fa_task task, void *ctx, int64_t n);

}  // namespace fa::cpu
