// From the structure that a caller fills to the call that engines receive: fa_forward_args to ForwardCall.
#pragma once

#include "core/operations.h"

namespace fa::api {

/// Why the arguments of a call are read.
enum class Purpose {
  run,
  size  // fa_<operation>_workspace_size: the data of tensors that must be there, and the workspace, are not looked at
};

/// Checks every field of *args and stores its meaning in the call (fresh on entry). The workspace's size and the
/// contents of arrays are the engine's to judge. False after a refusal.
#define FA_READ_ARGS(op, Op, FIELDS) \
  bool read_args(const Attention &attention, const ArgsOf<Op##Call> *args, Purpose purpose, Op##Call *call);
FA_OPERATIONS(FA_READ_ARGS)
#undef FA_READ_ARGS

}  // namespace fa::api
