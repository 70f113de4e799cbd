// Memory: allocate, free, copy, set. Device memory is host memory, so copies are memcpy once both ends are known to be
// in allocations.
#include <algorithm>
#include <cstring>

#include "driver/state.h"

using namespace fa::emu::driver;
using fa::emu::memory::Range;

namespace {

/// Host memory behind a range of device addresses; refuses what is not allocated.
uint8_t *device_bytes(Context &context, CUdeviceptr address, uint64_t bytes) {
  if (bytes == 0) return nullptr;
  auto ranges = context.device->memory->ranges();
  const Range *range = ranges->find(address);
  if (!range) refuse(CUDA_ERROR_INVALID_VALUE, "a device address in no allocation");
  if (address + bytes > range->end)
    refuse(CUDA_ERROR_INVALID_VALUE, "a range that runs over the end of its allocation");
  return reinterpret_cast<uint8_t *>(address);
}

template <class T>
CUresult fill(const char *name, CUdeviceptr address, T value, size_t count) {
  return api(name, [&] {
    Lock lock(process().mutex);
    require(address % sizeof(T) == 0, "an address that is not aligned to the value");
    T *at = reinterpret_cast<T *>(device_bytes(current(), address, count * sizeof(T)));
    std::fill_n(at, count, value);
    return CUDA_SUCCESS;
  });
}

}  // namespace

EMU_API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  return api("cuMemAlloc", [&] {
    Lock lock(process().mutex);
    require(address != nullptr && bytes > 0, "no place for the address, or 0 bytes");
    *address = current().device->memory->allocate(bytes);
    require(*address != 0, "the device's memory does not hold that much", CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemFree_v2(CUdeviceptr address) {
  return api("cuMemFree", [&] {
    Lock lock(process().mutex);
    Context &context = current();
    if (address == 0) return CUDA_SUCCESS;
    require(context.device->memory->release(address), "no allocation begins at that address");
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return api("cuMemGetInfo", [&] {
    Lock lock(process().mutex);
    require(free != nullptr && total != nullptr, "no place for the sizes");
    auto &memory = *current().device->memory;
    *free = memory.capacity() - memory.used();
    *total = memory.capacity();
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return api("cuMemcpyHtoD", [&] {
    Lock lock(process().mutex);
    uint8_t *at = device_bytes(current(), to, bytes);
    require(bytes == 0 || from != nullptr, "copy from null");
    if (bytes) std::memcpy(at, from, bytes);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return api("cuMemcpyDtoH", [&] {
    Lock lock(process().mutex);
    const uint8_t *at = device_bytes(current(), from, bytes);
    require(bytes == 0 || to != nullptr, "copy to null");
    if (bytes) std::memcpy(to, at, bytes);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return api("cuMemcpyDtoD", [&] {
    Lock lock(process().mutex);
    uint8_t *destination = device_bytes(current(), to, bytes);
    const uint8_t *source = device_bytes(current(), from, bytes);
    if (bytes) std::memmove(destination, source, bytes);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t count) {
  return fill("cuMemsetD8", address, value, count);
}
EMU_API CUresult cuMemsetD16_v2(CUdeviceptr address, unsigned short value, size_t count) {
  return fill("cuMemsetD16", address, value, count);
}
EMU_API CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned value, size_t count) {
  return fill("cuMemsetD32", address, value, count);
}
