#include "cuda/stream_memory.h"

#include "core/status.h"

namespace fa::cuda {

StreamMemory::~StreamMemory() {
  if (address_ != 0) machine().driver.cuMemFreeAsync(address_, stream_);
}

fa_status StreamMemory::allocate(const Device &device, int64_t bytes, const char *sized_by, const char *less) {
  const Driver &driver = machine().driver;
  if (!device.pools)
    return fail(FA_ERROR_UNSUPPORTED,
                "args.workspace is NULL, and device %d (%s) cannot allocate memory in stream order; expected a "
                "workspace of %lld bytes, as %s returns",
                device.index, device.name, static_cast<long long>(bytes), sized_by);
  const CUresult result = driver.cuMemAllocAsync(&address_, static_cast<size_t>(bytes), stream_);
  if (result == CUDA_SUCCESS) return FA_OK;
  address_ = 0;
  return failed(driver, "cuMemAllocAsync", result,
                "of %lld bytes on device %d: pass a workspace that is allocated once (%s), or %s",
                static_cast<long long>(bytes), device.index, sized_by, less);
}

}  // namespace fa::cuda
