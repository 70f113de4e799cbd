// The library's thread pool: persistent threads, started by the first call that needs them.
#pragma once

#include <fa.h>

#include <cstdint>

namespace fa::cpu {

/// Runs task(ctx, i) for every i in [0, n), also on the calling thread, and returns when all have returned. When the
/// pool is busy with another caller, or the caller is one of its threads, the caller runs all tasks itself. Safe after
/// fork: the child starts its own threads.
void run_in_pool(fa_task task, void *ctx, int64_t n);

/// Joins the threads. No run may be in progress; a later one starts new threads.
void shutdown_pool();

}  // namespace fa::cpu
