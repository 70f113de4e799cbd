// Work tiles by tickets: a block takes whichever is next when it is free, in place of those at a stride.
#pragma once

#include "cuda/forward_plan.h"

namespace fa::cuda {

/// Whether an image's blocks can take work tiles by tickets.
bool has_tickets(const Image &image);

/// Whether some work tile of a call is long enough for them. Never becomes false when a bound rises.
bool has_long_work(const ForwardCall &call, const kernels::TileConfig &tile);

/// Lets the blocks of a plan take work tiles by tickets where that pays. A step of plan_of, for models that plan
/// without tensor maps, too.
void add_tickets(const ForwardCall &call, const Device &device, ForwardPlan *plan);

}  // namespace fa::cuda
