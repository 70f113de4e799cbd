#include "cuda/resident.h"

#include <utility>

namespace fa::cuda {

ModuleCache::~ModuleCache() {
  for (Resident *resident = first_.load(); resident != nullptr;) delete std::exchange(resident, resident->next);
}

const Resident *ModuleCache::in(const Context &context, std::span<const Image *const> images, const Device &device,
                                const CUstream *stream) {
  Resident *first = first_.load(std::memory_order_acquire);
  for (const Resident *known = first; known != nullptr; known = known->next)
    if (known->context == context.id) return known;
  Resident found = {context.id, {}, first};
  for (size_t i = 0; i < images.size(); i++)
    if (find_module(*images[i], device, context, stream, &found.modules[i]) != FA_OK) return nullptr;
  Resident *added = new Resident(found);
  while (!first_.compare_exchange_weak(added->next, added, std::memory_order_acq_rel)) {
  }
  return added;
}

}  // namespace fa::cuda
