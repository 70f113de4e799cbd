// FA_DEVICE_AUTO where there is a GPU: two engines as one.
#pragma once

#include <memory>

#include "core/engine.h"

namespace fa::dispatch {

/// A GPU's engine, and the CPU's for the calls whose memory the GPU does not reach.
class AutoEngine final : public Engine {
 public:
  AutoEngine(std::unique_ptr<Engine> gpu, std::unique_ptr<Engine> cpu, const Kernel &cpu_kernel);

  /// Where the tensors live is not looked at: enough for either engine.
  fa_status workspace_size(const ForwardCall &problem, size_t *bytes) const override;
  fa_status compute(const ForwardCall &problem) const override;
  fa_status workspace_size(const BackwardCall &call, size_t *bytes) const override;
  fa_status compute(const BackwardCall &call) const override;

 private:
  std::unique_ptr<Engine> gpu_, cpu_;
  const Kernel &cpu_kernel_;
};

}  // namespace fa::dispatch
