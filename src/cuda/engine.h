// The CUDA engine: an attention bound to a device and to the images that serve it there.
#pragma once

#include "core/engine.h"
#include "cuda/backward_plan.h"
#include "cuda/plan.h"
#include "cuda/resident.h"

namespace fa::cuda {

class CudaEngine final : public EngineBase<CudaEngine> {
 public:
  CudaEngine(const Attention &attention, const Device &device, const ForwardKernels &serving,
             const Gradients &gradients);
  ~CudaEngine() override;

  /// Loads forward's kernels in the context that fa_create is called in, so that no call there loads anything. Those of
  /// backward, which few programs need, are loaded by the first call that does.
  fa_status load();

  fa_status do_workspace_size(const ForwardCall &problem, size_t *bytes) const;
  fa_status do_workspace_size(const BackwardCall &call, size_t *bytes) const;

  template <class Call>
  fa_status do_execute(Call call) const;

 private:
  template <class Call>
  fa_status run_synchronously(Call call, bool host_serves) const;

  const Resident *resident(const ForwardCall &, const Context &context, const CUstream *stream) const;
  const Resident *resident(const BackwardCall &, const Context &context, const CUstream *stream) const;
  fa_status run(const ForwardCall &problem, const Resident &resident) const;
  fa_status run(const BackwardCall &call, const Resident &resident) const;
  fa_status launch(const Plan &plan, const Resident &resident, CUstream stream) const;
  fa_status launch(const BackwardPlan &plan, const Resident &resident, CUstream stream) const;
  fa_status launched(CUresult result, const Image &image, kernels::Entry entry) const;

  Attention attention_;
  const Device &device_;
  const ForwardKernels serving_;
  const Gradients gradients_;
  mutable ModuleCache forward_, backward_;
};

}  // namespace fa::cuda
