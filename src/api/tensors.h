// The rules for the tensors of a call.
#pragma once

#include "api/args.h"

namespace fa::api {

/// Reads every tensor of the call's Fields, and from their shapes the sizes of the call and the bounds on lengths.
/// False after a refusal.
template <class Args, class Call>
bool read_tensors(const Attention &attention, const Args &args, Purpose purpose, Call *call);

template <>
bool read_tensors(const Attention &attention, const fa_append_args &args, Purpose purpose, AppendCall *call);

}  // namespace fa::api
