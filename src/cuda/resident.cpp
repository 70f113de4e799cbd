#include "cuda/resident.h"

#include <algorithm>
#include <utility>

namespace fa::cuda {

ModuleCache::~ModuleCache() {
  for (Resident *resident = first_.load(); resident != nullptr;) delete std::exchange(resident, resident->next);
}

const Resident *ModuleCache::in(const Context &context, const KernelSet &kernels, const Device &device,
                                const CUstream *stream) {
  Resident *first = first_.load(std::memory_order_acquire);
  for (const Resident *known = first; known != nullptr; known = known->next)
    if (known->context == context.id) return known;
  Resident found = {context.id, {}, first};
  const auto find = [&](const Image *image) {
    return image == nullptr ||
           find_module(*image, device, context, stream, &found.modules[kernels.index_of(image)]) == FA_OK;
  };
  if (!std::ranges::all_of(kernels, find) || !find(kernels.shared)) return nullptr;
  Resident *added = new Resident(found);
  while (!first_.compare_exchange_weak(added->next, added, std::memory_order_acq_rel)) {
  }
  return added;
}

}  // namespace fa::cuda
