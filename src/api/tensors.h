// The rules for the tensors of fa_args.
#pragma once

#include "api/args.h"

namespace fa::api {

/// Reads every tensor of core/operands.inc, and from their shapes the sizes of the problem and the bounds on lengths.
/// False after a refusal.
bool read_tensors(const Attention &attention, const fa_args &args, Purpose purpose, Problem *problem);

}  // namespace fa::api
