#include "dispatch/prepare.h"

#include <utility>

#include "core/status.h"
#include "dispatch/auto.h"
#include "dispatch/table.h"

namespace fa::dispatch {
namespace {

using OwnedEngine = std::unique_ptr<Engine>;

/// nullptr after an error.
OwnedEngine create(const KernelEntry &kernel, const Attention &attention) {
  return OwnedEngine(kernel.create(kernel, attention, kernel_forced()));
}

OwnedEngine create_alone(const KernelEntry &kernel, Attention attention) {
  attention.device = kernel.device;  // no other kernel may replace it
  return create(kernel, attention);
}

OwnedEngine create_pair(const KernelEntry &gpu_kernel, const KernelEntry &cpu_kernel, const Attention &attention) {
  OwnedEngine cpu = create(cpu_kernel, attention);
  if (!cpu) return nullptr;
  OwnedEngine gpu = create(gpu_kernel, attention);
  if (!gpu) return nullptr;
  return auto_engine(std::move(gpu), std::move(cpu), cpu_kernel);
}

}  // namespace

fa_status prepare(const Attention &attention, Prepared *prepared) {
  const KernelEntry *kernel = choose(attention);
  if (!kernel) return last_status();
  const KernelEntry *cpu_kernel = cpu_fallback(*kernel, attention);
  OwnedEngine engine = cpu_kernel ? create_pair(*kernel, *cpu_kernel, attention) : create_alone(*kernel, attention);
  if (!engine) return last_status();
  *prepared = {kernel, std::move(engine)};
  return FA_OK;
}

}  // namespace fa::dispatch
