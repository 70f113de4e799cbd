#include "dispatch/auto.h"

#include <algorithm>
#include <utility>

#include "core/log.h"

namespace fa::dispatch {
namespace {

class AutoEngine final : public EngineBase<AutoEngine> {
 public:
  AutoEngine(std::unique_ptr<Engine> gpu, std::unique_ptr<Engine> cpu, const KernelEntry &cpu_kernel)
      : gpu_(std::move(gpu)), cpu_(std::move(cpu)), cpu_kernel_(cpu_kernel) {}

  /// Where the tensors live is not looked at: enough for either engine.
  template <class Call>
  fa_status do_workspace_size(const Call &call, size_t *bytes) const {
    size_t on_cpu = 0;
    if (const fa_status status = cpu_->workspace_size(call, &on_cpu)) return status;
    const fa_status status = gpu_->workspace_size(call, bytes);
    *bytes = std::max(*bytes, on_cpu);
    return status;
  }

  template <class Call>
  fa_status do_execute(const Call &call) const {
    const fa_status status = gpu_->execute(call);
    if (status != try_other_engine) return status;
    if (verbose_dispatch())
      log_message("%s: the tensors are in memory of the host: %s runs", OperationTraits<Call>::name, cpu_kernel_.name);
    return cpu_->execute(call);
  }

 private:
  std::unique_ptr<Engine> gpu_, cpu_;
  const KernelEntry &cpu_kernel_;
};

}  // namespace

std::unique_ptr<Engine> auto_engine(std::unique_ptr<Engine> gpu, std::unique_ptr<Engine> cpu,
                                    const KernelEntry &cpu_kernel) {
  return std::make_unique<AutoEngine>(std::move(gpu), std::move(cpu), cpu_kernel);
}

}  // namespace fa::dispatch
