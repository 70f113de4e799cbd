// From the caller's fa_desc to an Attention.
#pragma once

#include "core/call.h"

namespace fa::api {

/// Checks every field of *desc and stores its meaning, defaults filled in, in *attention. False after a refusal.
bool read_desc(const fa_desc *desc, Attention *attention);

}  // namespace fa::api
