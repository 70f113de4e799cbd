// The CUDA engine: an attention bound to a device and to the images that support it there.
#pragma once

#include "core/engine.h"
#include "cuda/image.h"
#include "cuda/resident.h"

namespace fa::cuda {

class CudaEngine final : public EngineBase<CudaEngine> {
 public:
  CudaEngine(const Attention &attention, const Device &device, const PerOperation<KernelSet> &kernels);
  ~CudaEngine() override;

  /// Loads forward's kernels in the context that fa_create is called in, so that no call there loads anything, and
  /// those of append where they rotate a part of forward's. Those of other operations, which few programs need, are
  /// loaded by the first call that does.
  fa_status load();

  template <class Call>
  fa_status do_workspace_size(const Call &call, size_t *bytes) const;

  template <class Call>
  fa_status do_execute(Call call) const;

 private:
  template <class Call>
  fa_status execute_synchronously(Call call, bool cpu_fallback) const;
  template <class Call>
  const Resident *resident(const Context &context, const CUstream *stream) const;

  /// The kernels of a call, and append's where they rotate a part of it.
  struct Loaded {
    const Resident *own = nullptr, *rotation = nullptr;
  };
  /// False after an error.
  template <class Call>
  bool load_for(const Context &context, const CUstream *stream, Loaded *loaded) const;
  template <class Call>
  fa_status enqueue(const Call &call, const Loaded &loaded) const;
  template <class Call>
  fa_status enqueue_plan(const Call &call, const Resident &resident) const;
  fa_status enqueue_rotated(const ForwardCall &call, const Loaded &loaded) const;

  Attention attention_;
  const Device &device_;
  const PerOperation<KernelSet> kernels_;
  mutable PerOperation<ModuleCache> modules_;
};

}  // namespace fa::cuda
