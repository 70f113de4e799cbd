// The modules that an op needs for one kind of call, in each context that it has been called in.
#pragma once

#include <atomic>

#include "cuda/module.h"

namespace fa::cuda {

/// The modules of a KernelSet in one context, by KernelSet::index_of.
struct Resident {
  unsigned long long context;  // its identity
  Module modules[max_images + 1];
  Resident *next;
};

/// Grows without a lock: calls of any thread look through it.
class ModuleCache {
 public:
  ModuleCache() = default;
  ~ModuleCache();
  ModuleCache(const ModuleCache &) = delete;
  ModuleCache &operator=(const ModuleCache &) = delete;

  /// The modules of the current context, loaded if need be; nullptr after an error that core/status.h describes.
  /// stream: as find_module has it.
  const Resident *in(const Context &context, const KernelSet &kernels, const Device &device, const CUstream *stream);

 private:
  std::atomic<Resident *> first_{nullptr};
};

}  // namespace fa::cuda
