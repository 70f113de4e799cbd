// A call in the memory that its kernel needs.
#pragma once

#include <optional>

#include "gpu.h"
#include "library.h"
#include "timing.h"

namespace fa::tool {

/// Times calls of one operation as time_calls() does. The kernels of a GPU work on copies in its memory: copying is no
/// part of the times, and the results of the first call are copied back before `then`. sequences: B, which the
/// structure does not have for every call.
template <class Args>
void time_on_device(const char *pass, int64_t repeat, Throughput throughput,
                    fa_status (*function)(const fa_op *, const Args *), const Op &op, const Args &args,
                    int64_t sequences, int32_t device_index, const std::function<void()> &then = {}) {
  std::optional<OnGpu<Args>> gpu;
  if (is_gpu_kernel(fa_op_kernel_name(op.get()))) gpu.emplace(args, op.get(), sequences, device_index);
  const auto call = [&] {
    check(function(op.get(), gpu ? &gpu->args : &args));
    if (gpu) gpu->wait();
  };
  time_calls(pass, repeat, throughput, call, [&] {
    if (gpu) gpu->fetch();
    if (then) then();
  });
}

}  // namespace fa::tool
