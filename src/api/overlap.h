// Outputs share no memory with the rest of the call: a call is refused where they certainly do.
#pragma once

#include "core/call.h"

namespace fa::api {

/// Checks the outputs and the workspace of a call against each other, its other tensors and its arrays. Refuses only
/// certain overlaps: tensors that interleave (packed QKV) share no element though their extents cross. False after a
/// refusal.
template <class Args, class Call>
bool check_overlap(const Args &args, const Call &call);

}  // namespace fa::api
