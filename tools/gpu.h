// GPUs as the tool uses them: the driver's functions by name, the GPUs of this machine, and a call's memory on one of
// them.
#pragma once

#include <fa.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "error.h"

namespace fa::tool {

/// The driver's function, or nullptr.
void *driver_function(const char *name);

/// The result of a function of the driver: 0 on success. Throws Failure where the driver lacks it.
template <class... Arguments>
int try_driver(const char *name, Arguments... arguments) {
  void *function = driver_function(name);
  if (function == nullptr) failure("NVIDIA's driver has no {}", name);
  return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}

/// "CUDA_ERROR_OUT_OF_MEMORY".
const char *error_name(int result);

/// A function of the driver that must not fail. Throws Failure where it does.
template <class... Arguments>
void call_driver(const char *name, Arguments... arguments) {
  if (const int result = try_driver(name, arguments...))
    failure("the GPU's driver failed: {}: {}", name, error_name(result));
}

struct Gpu {
  // Empty or 0 where the driver does not report it.
  std::string name;
  std::string arch;  // "sm_80"
  int multiprocessors = 0;
  double memory_gib = 0;
  std::string kernel;              // the best one for f16; "" where none runs
  std::string unavailable_reason;  // the library's, where no kernel runs
};

struct Gpus {
  std::string driver;     // the version of CUDA that it is for, "13.0"; "" without one
  std::vector<Gpu> list;  // by CUDA's numbers
  std::string why_none;   // the library's reason where the list is empty, else ""
};

/// Prepares an attention on each GPU, so that a passing obstacle is seen, too.
Gpus find_gpus();

/// True for kernels of a GPU ("cuda.sm_80.mma").
bool is_gpu_kernel(const std::string &kernel);

/// The tensors, arrays and workspace of a call (fa_forward_args and its like), copied to memory of a GPU for as
/// long as this lives. Throws Failure where the driver fails.
template <class Args>
class OnGpu {
 public:
  /// sequences: B, which the structure does not have for every call.
  OnGpu(const Args &host, const fa_op *op, int64_t sequences, int32_t device_index);
  ~OnGpu();
  OnGpu(const OnGpu &) = delete;
  OnGpu &operator=(const OnGpu &) = delete;

  Args args;  // to call fa_forward, or its like, with

  /// Waits until all calls are done.
  void wait() const;

  /// Waits, and copies the call's results to the host's memory.
  void fetch() const;

 private:
  void *copy(const void *host, size_t bytes);
  void move(fa_tensor *tensor);
  void move(const int32_t **array, int64_t count);
  void move_parts();

  const Args host_;
  std::vector<fa_tensor> outs_, lses_;     // of fa_merge, in the GPU's memory
  std::map<const void *, void *> copies_;  // by their place in the host's memory
  void *workspace_ = nullptr;
};

}  // namespace fa::tool
