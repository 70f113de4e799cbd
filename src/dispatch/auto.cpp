#include "dispatch/auto.h"

#include <algorithm>
#include <utility>

#include "core/log.h"

namespace fa::dispatch {

AutoEngine::AutoEngine(std::unique_ptr<Engine> gpu, std::unique_ptr<Engine> cpu, const Kernel &cpu_kernel)
    : gpu_(std::move(gpu)), cpu_(std::move(cpu)), cpu_kernel_(cpu_kernel) {}

namespace {

/// Enough wherever the call is served.
template <class Call>
fa_status largest_workspace(const Engine &gpu, const Engine &cpu, const Call &call, size_t *bytes) {
  size_t on_cpu = 0;
  if (const fa_status status = cpu.workspace_size(call, &on_cpu)) return status;
  const fa_status status = gpu.workspace_size(call, bytes);
  *bytes = std::max(*bytes, on_cpu);
  return status;
}

}  // namespace

fa_status AutoEngine::workspace_size(const ForwardCall &problem, size_t *bytes) const {
  return largest_workspace(*gpu_, *cpu_, problem, bytes);
}

fa_status AutoEngine::workspace_size(const BackwardCall &call, size_t *bytes) const {
  return largest_workspace(*gpu_, *cpu_, call, bytes);
}

fa_status AutoEngine::compute(const ForwardCall &problem) const {
  const fa_status status = gpu_->compute(problem);
  if (status != try_other_engine) return status;
  if (verbose_dispatch()) say("forward: the tensors are in memory of the host: %s serves", cpu_kernel_.name);
  return cpu_->compute(problem);
}

fa_status AutoEngine::compute(const BackwardCall &call) const {
  const fa_status status = gpu_->compute(call);
  if (status != try_other_engine) return status;
  if (verbose_dispatch()) say("backward: the tensors are in memory of the host: %s serves", cpu_kernel_.name);
  return cpu_->compute(call);
}

}  // namespace fa::dispatch
