// The library's own threads: few, persistent, started by the first call that needs them.
#pragma once

#include <fa.h>

#include <cstdint>

namespace fa::cpu {

/// Runs task(ctx, i) for every i in [0, n), the caller taking part, and returns when all have returned. When the
/// threads are busy with another caller, or this is one of them, the caller runs all tasks by itself. Safe after fork:
/// the child starts threads of its own.
void run_in_pool(fa_task task, void *ctx, int64_t n);

/// Ends the threads and waits for them. No run may be under way; a later one starts new threads.
void shutdown_pool();

}  // namespace fa::cpu
