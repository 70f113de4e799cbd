// A call's memory on the GPU: `fa run` and `fa bench` copy it there themselves where a GPU's kernel serves.
#pragma once

#include <fa.h>

#include <map>
#include <memory>
#include <string>

namespace fa::tool {

/// True for kernels of a GPU ("cuda.sm_80.mma").
bool is_gpu_kernel(const std::string &kernel);

/// The tensors, arrays and workspace of a call (fa_forward_args or fa_backward_args), copied to memory of a GPU for as
/// long as this lives. Throws Failure where the driver fails.
template <class Args>
class OnGpu {
 public:
  /// sequences: B, which the structure does not have for every call.
  OnGpu(const Args &host, const fa_op *op, int64_t sequences, int32_t device_index);
  ~OnGpu();
  OnGpu(const OnGpu &) = delete;
  OnGpu &operator=(const OnGpu &) = delete;

  Args args;  // what to call fa_forward or fa_backward with

  /// Waits until all calls are done.
  void wait() const;

  /// Waits, and copies what the call has written to where the host has it.
  void fetch() const;

 private:
  void *copy(const void *host, size_t bytes);
  void move(fa_tensor *tensor);
  void move(const int32_t **array, int64_t count);

  const Args host_;
  std::map<const void *, void *> copies_;  // by their place in the host's memory
  void *workspace_ = nullptr;
};

}  // namespace fa::tool
