// The fields of a call in addition to its tensors: arrays, bounds, workspace and stream.
#pragma once

#include <cstdint>

#include "api/refuse.h"
#include "api/view.h"
#include "core/fields.h"

namespace fa::api {

template <class Args, class Call>
bool read_arrays(const Args &args, Call *call) {
  for (const auto &a : Fields<Call>::arrays) {
    call->*a.data = args.*a.given;
    if (!check_aligned(a.name, "", args.*a.given, sizeof(int32_t))) return false;
  }
  return true;
}

/// Refuses arrays that exclude each other in every kind of call.
template <class Args>
bool check_arrays(const Args &args) {
  if (!args.kv_batch_idx || !args.cu_seqlens_k) return true;
  return refuse("args.kv_batch_idx with args.cu_seqlens_k: a packed tensor has no batch rows to choose");
}

template <class Args>
bool check_numbers(const Args &args) {
  return in_range("args.num_seqs", args.num_seqs, 0, max_length, "sequences of cu_seqlens_*; 0 without them") &&
         in_range("args.max_seqlen_q", args.max_seqlen_q, 0, max_length, "0 means all rows of q") &&
         in_range("args.max_seqlen_k", args.max_seqlen_k, 0, max_length, "0 means all rows of k") &&
         in_range("args.reserved", args.reserved, 0, 0);
}

template <class Args>
bool read_workspace(const Args &args, Execution *execution) {
  execution->workspace = args.workspace;
  execution->workspace_size = args.workspace_size;
  if (!args.workspace && args.workspace_size != 0) {
    return refuse(
        "args.workspace is NULL, but args.workspace_size is %zu; expected memory of that size, or 0 to have "
        "it allocated by the call",
        args.workspace_size);
  }
  if (reinterpret_cast<uintptr_t>(args.workspace) % 256 != 0) {
    return refuse("args.workspace is %p; expected a multiple of 256: allocate it with aligned_alloc(256, size)",
                  args.workspace);
  }
  return true;
}

}  // namespace fa::api
