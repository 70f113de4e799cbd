// The CPU engine: an attention bound to one ISA's kernels.
#pragma once

#include "core/engine.h"
#include "cpu/tile.h"

namespace fa::cpu {

class CpuEngine final : public Engine {
 public:
  CpuEngine(const Attention &attention, const Kernels &kernels);

  fa_status workspace_size(const ForwardCall &problem, size_t *bytes) const override;
  fa_status compute(const ForwardCall &problem) const override;
  fa_status workspace_size(const BackwardCall &call, size_t *bytes) const override;
  fa_status compute(const BackwardCall &call) const override;

 private:
  Attention attention_;
  const Kernels &kernels_;
  int32_t threads_;
};

}  // namespace fa::cpu
