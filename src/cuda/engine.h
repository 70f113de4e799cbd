// The CUDA engine: an attention bound to a device and to the images that serve it there.
#pragma once

#include <atomic>

#include "core/engine.h"
#include "cuda/module.h"
#include "cuda/plan.h"

namespace fa::cuda {

class CudaEngine final : public Engine {
 public:
  CudaEngine(const Attention &attention, const Device &device, const Image &image, const Image &combine);
  ~CudaEngine() override;

  /// Loads the kernels in the context that fa_create is called in, so that no call there loads anything.
  fa_status load();

  fa_status workspace_size(const Problem &problem, size_t *bytes) const override;
  fa_status forward(const Problem &problem) const override;

 private:
  /// The kernels in one context.
  struct Bound {
    unsigned long long context;  // its identity
    Module kernels, combine;
    Bound *next;
  };

  /// A launch's result, and which.
  struct Launched {
    CUresult result;
    kernels::Entry entry;
  };

  fa_status forward_plain(Problem problem, bool host_serves) const;
  const Bound *bind(const Context &context, const CUstream *stream) const;
  fa_status run(const Problem &problem, const Bound &bound) const;
  Launched launch(const Problem &problem, const Plan &plan, const Bound &bound, char *workspace) const;

  Attention attention_;
  const Device &device_;
  const Image &image_, &combine_;
  mutable std::atomic<Bound *> bound_{nullptr};
};

}  // namespace fa::cuda
