// The rules for quantised keys and values, in addition to those of every tensor.
#pragma once

#include "api/args.h"

namespace fa::api {

/// Checks that scales and zeros, whose tensors have been read, are there where the types of k and v have them, and
/// there alone; stores their channels. False after a refusal.
bool read_factors(const fa_forward_args &args, Purpose purpose, ForwardCall *call);

/// The same for a cache that is written; also checks computed scales.
bool read_factors(const fa_append_args &args, Purpose purpose, AppendCall *call);

}  // namespace fa::api
