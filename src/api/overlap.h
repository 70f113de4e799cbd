// What a call writes is in no other memory of the call: refused where it certainly is.
#pragma once

#include "core/call.h"

namespace fa::api {

/// Checks the outputs and the workspace of a call against each other, its other tensors and its arrays. Only what is
/// certain is refused: tensors that interleave (packed QKV) share no element though their extents cross. False after a
/// refusal.
template <class Args, class Call>
bool check_overlap(const Args &args, const Call &call);

}  // namespace fa::api
