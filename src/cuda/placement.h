// The memory of a call: where it is, whether this engine reaches it, and which context it belongs to.
#pragma once

#include "core/call.h"
#include "cuda/device.h"

namespace fa::cuda {

enum class MemorySpace {
  device,  // the device reaches all of it
  host,    // the device does not reach all of it, but the host does
  both     // plain memory of the host, all of which the device reaches
};

/// Finds where the tensors, arrays and the workspace of a call (ForwardCall, BackwardCall) are. *context is the context
/// that the device's memory belongs to, null where any of the device's will do. *translate: some memory is the host's,
/// which the device may see at other addresses. No context need be current. FA_OK, or an error that core/status.h
/// describes: memory of another device, or neither place reaches all of it. cpu_fallback: MemorySpace::host is a
/// result, not an error.
template <class Call>
fa_status find_memory_space(const Device &device, Call *call, bool cpu_fallback, MemorySpace *place, CUcontext *context,
                            bool *translate);

/// Moves a call's pointers to where the device sees them, in the current context. FA_OK, or an error that
/// core/status.h describes.
template <class Call>
fa_status translate_addresses(Call *call);

}  // namespace fa::cuda
