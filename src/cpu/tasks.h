// A call's tasks, on the host's threads or on the library's.
#pragma once

#include "core/call.h"

namespace fa::cpu {

/// Runs task(ctx, i) for every i in [0, n), each in the default floating-point environment, and returns when all have
/// returned. host: what the calling thread came in with, for parallel_for, which is its own.
void run_tasks(const Attention &attention, HostState *host, fa_task task, void *ctx, int64_t n);

}  // namespace fa::cpu
