// From the caller's fa_forward_args to a ForwardCall, from fa_backward_args to a BackwardCall.
#pragma once

#include "core/call.h"

namespace fa::api {

/// What a call's arguments are read for.
enum class Purpose {
  run,
  size  // fa_forward_workspace_size: the data of tensors that must be there, and the workspace, are not looked at
};

/// Checks every field of *args and stores what it means in the call (fresh on entry). The workspace's size and the
/// contents of arrays are the engine's to judge. False after a refusal.
bool read_args(const Attention &attention, const fa_forward_args *args, Purpose purpose, ForwardCall *problem);
bool read_args(const Attention &attention, const fa_backward_args *args, Purpose purpose, BackwardCall *call);

}  // namespace fa::api
