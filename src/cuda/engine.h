// The CUDA engine: an attention bound to a device and to the images that serve it there.
#pragma once

#include <atomic>

#include "core/engine.h"
#include "cuda/module.h"
#include "cuda/plan.h"

namespace fa::cuda {

class CudaEngine final : public Engine {
 public:
  CudaEngine(const Attention &attention, const Device &device, const Serving &serving);
  ~CudaEngine() override;

  /// Loads the kernels in the context that fa_create is called in, so that no call there loads anything.
  fa_status load();

  fa_status workspace_size(const Problem &problem, size_t *bytes) const override;
  fa_status compute(const Problem &problem) const override;

  /// No kernel of a GPU computes gradients: an auto op leaves memory of the host to the CPU, all else is refused.
  fa_status workspace_size(const Backward &call, size_t *bytes) const override;
  fa_status compute(const Backward &call) const override;

 private:
  /// The op's kernels in one context.
  struct Resident {
    unsigned long long context;   // its identity
    Module modules[most_images];  // of serving_.images
    Module combine;
    Resident *next;
  };

  fa_status compute_plain(Problem problem, bool host_serves) const;
  const Resident *make_resident(const Context &context, const CUstream *stream) const;
  fa_status run(const Problem &problem, const Resident &resident) const;
  fa_status launch(const Plan &plan, const Resident &resident, CUstream stream) const;

  Attention attention_;
  const Device &device_;
  const Serving serving_;
  mutable std::atomic<Resident *> resident_{nullptr};
};

}  // namespace fa::cuda
