// Memory: allocate, free, ask; of devices, of the host, and managed.
#include <sys/mman.h>

#include <algorithm>

#include "driver/called_as.h"
#include "driver/capture.h"
#include "driver/memory_table.h"
#include "driver/submit.h"

using namespace fa::emu::driver;
using fa::emu::memory::RangeKind;

namespace {

constexpr uint64_t pitch_unit = 512;

uint64_t host_address(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

/// Enters memory of the host into the table, and lets every device see it.
Allocation &add_host(Context &context, void *begin, size_t bytes, unsigned flags, bool owned_by_host) {
  Allocation allocation;
  allocation.device = context.device;
  allocation.context = &context;
  allocation.bytes = bytes;
  allocation.id = ++process().ids;
  allocation.flags = flags;
  allocation.kind = RangeKind::host;
  allocation.owned_by_host = owned_by_host;
  for (const auto &device : process().devices) device->memory->add_host(begin, bytes);
  return process().allocations[host_address(begin)] = allocation;
}

/// The whole pages around a range.
struct Pages {
  Pages(uint64_t address, uint64_t bytes)
      : begin(address / size * size), length((address + bytes + size - 1) / size * size - begin) {}
  static constexpr uint64_t size = 4096;
  uint64_t begin, length;
};

/// Enters registered memory at a second address, which devices use.
void add_host_apart(Context &context, void *pointer, size_t bytes, unsigned flags) {
  const Pages pages(host_address(pointer), bytes);
  void *view = mremap(reinterpret_cast<void *>(pages.begin), 0, pages.length, MREMAP_MAYMOVE);
  require(view != MAP_FAILED, "only memory that is mapped as shared (MAP_SHARED) is seen at two addresses",
          CUDA_ERROR_NOT_SUPPORTED);
  uint64_t distance = host_address(view) - pages.begin;
  Allocation &seen = add_host(context, reinterpret_cast<char *>(pointer) + distance, bytes, flags, true);
  seen.to_host = -static_cast<int64_t>(distance);
  Allocation &own = process().allocations[host_address(pointer)] = seen;
  own.to_host = 0;
  own.to_device = static_cast<int64_t>(distance);
}

Allocation &host_allocation(const void *pointer, bool owned_by_host, CUresult code) {
  auto found = process().allocations.find(host_address(pointer));
  bool right = found != process().allocations.end() && found->second.kind == RangeKind::host &&
               found->second.owned_by_host == owned_by_host && found->second.to_host == 0;
  if (!right) refuse(code, "no such memory of the host begins there");
  return found->second;
}

void remove_host(const void *pointer) {
  const Allocation allocation = process().allocations.at(host_address(pointer));
  const uint64_t seen = host_address(pointer) + static_cast<uint64_t>(allocation.to_device);
  for (const auto &device : process().devices) device->memory->remove_host(reinterpret_cast<void *>(seen));
  process().allocations.erase(seen);
  if (allocation.to_device == 0) return;
  process().allocations.erase(host_address(pointer));
  const Pages pages(seen, allocation.bytes);
  munmap(reinterpret_cast<void *>(pages.begin), pages.length);
}

}  // namespace

EMU_API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  return api("cuMemAlloc", [&] {
    Lock lock(process().mutex);
    require(address != nullptr && bytes > 0, "no place for the address, or 0 bytes");
    Context &context = current();
    require_no_capture();
    *address = make_allocation(context, *context.device, bytes, RangeKind::device);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                                    unsigned element_bytes) {
  return api("cuMemAllocPitch", [&] {
    Lock lock(process().mutex);
    require(address != nullptr && pitch != nullptr && width > 0 && height > 0,
            "no place for the address or the pitch, or no extent");
    require(element_bytes == 4 || element_bytes == 8 || element_bytes == 16, "elements have 4, 8 or 16 bytes");
    Context &context = current();
    require_no_capture();
    *pitch = (width + pitch_unit - 1) / pitch_unit * pitch_unit;
    *address = make_allocation(context, *context.device, *pitch * height, RangeKind::device);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
  return api("cuMemAllocManaged", [&] {
    Lock lock(process().mutex);
    require(address != nullptr && bytes > 0, "no place for the address, or 0 bytes");
    require(flags == 1 || flags == 2, "flags are CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST");
    Context &context = current();
    require_no_capture();
    *address = make_allocation(context, *context.device, bytes, RangeKind::managed);
    for (const auto &device : process().devices)
      if (device.get() != context.device)
        device->memory->add_host(reinterpret_cast<void *>(*address), bytes, RangeKind::managed);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemFree_v2(CUdeviceptr address) {
  return api("cuMemFree", [&] {
    {
      Lock lock(process().mutex);
      current();
      if (address == 0) return CUDA_SUCCESS;
      require_no_capture();
      auto found = process().allocations.find(address);
      bool whole = found != process().allocations.end() && found->second.kind != RangeKind::host;
      require(whole && !found->second.freed && !found->second.mapped, "no allocation begins at that address");
    }
    drain();
    Lock lock(process().mutex);
    current();
    for (const auto &device : process().devices) device->memory->remove_host(reinterpret_cast<void *>(address));
    require(release_allocation(address), "no allocation begins at that address");
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

EMU_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *begin, size_t *bytes, CUdeviceptr address) {
  return api("cuMemGetAddressRange", [&] {
    Lock lock(process().mutex);
    current();
    auto found = process().allocations.upper_bound(address);
    bool known =
        found != process().allocations.begin() && address < std::prev(found)->first + std::prev(found)->second.bytes;
    require(known, "an address in no allocation", CUDA_ERROR_NOT_FOUND);
    if (begin) *begin = std::prev(found)->first;
    if (bytes) *bytes = std::prev(found)->second.bytes;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  return api("cuMemHostAlloc", [&] {
    Lock lock(process().mutex);
    require(pointer != nullptr && bytes > 0 && flags <= 7, "no place for the pointer, 0 bytes, or unknown flags");
    Context &context = current();
    require_no_capture();
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "the host's memory does not hold that much", CUDA_ERROR_OUT_OF_MEMORY);
    add_host(context, memory, bytes, flags, false);
    *pointer = memory;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
  const CalledAs name("cuMemAllocHost");
  return cuMemHostAlloc(pointer, bytes, 0);
}

EMU_API CUresult cuMemFreeHost(void *pointer) {
  return api("cuMemFreeHost", [&] {
    {
      Lock lock(process().mutex);
      current();
      if (!pointer) return CUDA_SUCCESS;
      require_no_capture();
      host_allocation(pointer, false, CUDA_ERROR_INVALID_VALUE);
    }
    drain();
    Lock lock(process().mutex);
    size_t bytes = host_allocation(pointer, false, CUDA_ERROR_INVALID_VALUE).bytes;
    remove_host(pointer);
    munmap(pointer, bytes);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  return api("cuMemHostRegister", [&] {
    Lock lock(process().mutex);
    require(pointer != nullptr && bytes > 0 && flags <= 15, "null, 0 bytes, or unknown flags");
    Context &context = current();
    require_no_capture();
    uint64_t begin = host_address(pointer);
    bool overlaps = find_allocation(begin) || find_allocation(begin + bytes - 1);
    auto behind = process().allocations.upper_bound(begin);
    overlaps |= behind != process().allocations.end() && behind->first < begin + bytes;
    require(!overlaps, "the range is registered already", CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    if (context.device->limits.apart) {
      add_host_apart(context, pointer, bytes, flags);
    } else {
      add_host(context, pointer, bytes, flags, true);
    }
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemHostUnregister(void *pointer) {
  return api("cuMemHostUnregister", [&] {
    {
      Lock lock(process().mutex);
      current();
      require_no_capture();
      host_allocation(pointer, true, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    }
    drain();
    Lock lock(process().mutex);
    remove_host(pointer);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned flags) {
  return api("cuMemHostGetDevicePointer", [&] {
    Lock lock(process().mutex);
    require(address != nullptr && flags == 0, "no place for the address, or flags that are not 0");
    current();
    Allocation *allocation = find_allocation(host_address(pointer));
    require(allocation && allocation->kind == RangeKind::host, "memory that is neither pinned nor registered");
    *address = host_address(pointer) + static_cast<uint64_t>(allocation->to_device);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemHostGetFlags(unsigned *flags, void *pointer) {
  return api("cuMemHostGetFlags", [&] {
    Lock lock(process().mutex);
    require(flags != nullptr, "no place for the flags");
    current();
    Allocation *allocation = find_allocation(host_address(pointer));
    require(allocation && allocation->kind == RangeKind::host, "memory that is neither pinned nor registered");
    *flags = allocation->flags;
    return CUDA_SUCCESS;
  });
}

/// Managed memory is everywhere at once, so advice and prefetching change nothing.
EMU_API CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, int, CudaMemLocation) {
  return api("cuMemAdvise", [&] {
    Lock lock(process().mutex);
    current();
    Allocation *allocation = find_allocation(address);
    require(allocation && allocation->kind == RangeKind::managed && is_accessible(address, bytes, true),
            "memory that is not managed");
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, CUdevice) {
  return cuMemAdvise_v2(address, bytes, advice, {});
}
EMU_API CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CudaMemLocation, unsigned, CUstream stream) {
  const CalledAs name("cuMemPrefetchAsync");
  CUresult known = cuMemAdvise_v2(address, bytes, 0, {});
  return known != CUDA_SUCCESS ? known : api("cuMemPrefetchAsync", [&] {
    Lock lock(process().mutex);
    submit(stream_of(stream), EmptyWork());
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice, CUstream stream) {
  const CalledAs name("cuMemPrefetchAsync");
  return cuMemPrefetchAsync_v2(address, bytes, {}, 0, stream);
}

/// locations: of the ranges from first[i] on.
EMU_API CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *bytes, size_t count,
                                         CudaMemLocation *locations, size_t *first, size_t location_count,
                                         unsigned long long flags, CUstream stream) {
  CUresult result = api("cuMemPrefetchBatchAsync", [&] {
    require(addresses && bytes && count > 0 && flags == 0, "no ranges, or flags that are not 0");
    require(locations && first && location_count > 0 && location_count <= count && first[0] == 0,
            "locations, which begin with the first range, are needed");
    return CUDA_SUCCESS;
  });
  for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
    result = cuMemPrefetchAsync_v2(addresses[i], bytes[i], locations[0], 0, stream);
  return result;
}

EMU_API CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t, unsigned) {
  const CalledAs name("cuStreamAttachMemAsync");
  return cuMemPrefetchAsync_v2(address, 0, {}, 0, stream);
}
