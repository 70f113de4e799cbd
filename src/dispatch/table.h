// The one priority-ordered table of every engine's kernels, and the choice of a kernel from it.
#pragma once

#include <cstddef>

#include "core/engine.h"

namespace fa::dispatch {

/// The number of kernels in the library.
size_t kernel_count();

/// Kernel index of the table, best first; index is below kernel_count().
const KernelEntry &kernel(size_t index);

/// The first kernel of the table that supports the attention on this machine, under FA_FORCE_KERNEL and FA_MAX_ARCH;
/// FA_VERBOSE=dispatch says why each better one was skipped. nullptr after an error that core/status.h describes:
/// FA_ERROR_NO_DEVICE, or FA_ERROR_UNSUPPORTED with each kernel's reason.
const KernelEntry *choose(const Attention &attention);

/// Whether FA_FORCE_KERNEL names the kernel, which no other may then replace.
bool kernel_forced();

/// The kernel for calls whose tensors the chosen one's device does not reach: the CPU's, under FA_DEVICE_AUTO.
/// nullptr where the CPU was chosen, or a kernel was asked for by name.
const KernelEntry *cpu_fallback(const KernelEntry &chosen, const Attention &attention);

}  // namespace fa::dispatch
