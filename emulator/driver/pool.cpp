// Memory in the order of streams: cuMemAllocAsync, cuMemFreeAsync, and the pools that they take from. A pool is an
// account; memory itself goes back to the device as soon as its free has run.
#include <set>

#include "driver/called_as.h"
#include "driver/capture.h"
#include "driver/memory_table.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

namespace {

enum PoolAttribute : int {
  reuse_follow = 1,
  reuse_opportunistic,
  reuse_internal,
  release_threshold,
  reserved_now,
  reserved_high,
  used_now,
  used_high,
};

Device &with_pools(Device &device) {
  require(device.limits.pools, "the device has no memory in the order of streams", CUDA_ERROR_NOT_SUPPORTED);
  return device;
}

CUresult allocate(CUdeviceptr *address, size_t bytes, CUmemoryPool pool_handle, CUstream handle) {
  return api("cuMemAllocAsync", [&] {
    Lock lock(process().mutex);
    require(address != nullptr && bytes > 0, "no place for the address, or 0 bytes");
    Stream &stream = stream_of(handle);
    with_pools(*stream.context->device);
    Pool *pool = pool_handle ? &object<Pool>(pool_handle) : stream.context->device->pool;
    *address = make_allocation(*stream.context, *pool->device, bytes, fa::emu::memory::RangeKind::device, pool);
    if (stream.capture) stream.capture->graph->memory.push_back(*address);
    submit(stream, AllocateWork{*address, bytes});
    return CUDA_SUCCESS;
  });
}

/// Since 13.0 pools are asked for by location, of which the emulator's are devices.
template <class Call>
CUresult with_device(const CudaMemLocation *location, Call call) {
  CUresult known = api("pool of a location", [&] {
    require(location != nullptr, "no location");
    require(location->type == CU_MEM_LOCATION_TYPE_DEVICE, "the emulator's pools are on devices",
            CUDA_ERROR_NOT_SUPPORTED);
    return CUDA_SUCCESS;
  });
  return known == CUDA_SUCCESS ? call(location->id) : known;
}

}  // namespace

EMU_API CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
  return allocate(address, bytes, nullptr, stream);
}

EMU_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
  const CalledAs name("cuMemAllocFromPoolAsync");
  if (!pool) return api("cuMemAllocFromPoolAsync", [] { return CUDA_ERROR_INVALID_VALUE; });
  return allocate(address, bytes, pool, stream);
}

EMU_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return api("cuMemFreeAsync", [&] {
    Lock lock(process().mutex);
    Stream &stream = stream_of(handle);
    with_pools(*stream.context->device);
    if (address == 0) return CUDA_SUCCESS;
    auto found = process().allocations.find(address);
    bool whole = found != process().allocations.end() && found->second.kind != fa::emu::memory::RangeKind::host;
    require(whole && !found->second.freed && !found->second.mapped, "no allocation begins at that address");
    if (stream.capture) {
      capture_work(stream, FreeWork{address});
      return CUDA_SUCCESS;
    }
    found->second.freed = true;
    submit(stream, FreeWork{address});
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemPoolCreate(CUmemoryPool *handle, const CudaPoolProperties *properties) {
  return api("cuMemPoolCreate", [&] {
    Lock lock(process().mutex);
    require(handle != nullptr && properties != nullptr, "no place for the pool, or no properties");
    constexpr int pinned = 1;
    require(properties->allocation_type == pinned, "the allocation type must be CU_MEM_ALLOCATION_TYPE_PINNED");
    require(properties->handle_types == 0, "the emulator exports no memory", CUDA_ERROR_NOT_SUPPORTED);
    require(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE, "the emulator's pools are on devices",
            CUDA_ERROR_NOT_SUPPORTED);
    auto pool = std::make_unique<Pool>();
    pool->device = &with_pools(device_at(properties->location.id));
    pool->most = properties->max_bytes;
    make_alive(pool.get());
    *handle = handle_of<CUmemoryPool>(pool.get());
    process().pools.insert(std::move(pool));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return api("cuMemPoolDestroy", [&] {
    Lock lock(process().mutex);
    Pool &pool = object<Pool>(handle);
    require(!pool.is_default, "the default pool stays");
    for (auto &[address, allocation] : process().allocations)
      if (allocation.pool == &pool) allocation.pool = nullptr;
    for (const auto &device : process().devices)
      if (device->pool == &pool) device->pool = &device->default_pool;
    erase_owned(process().pools, &pool);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  return api("cuMemPoolTrimTo", [&] {
    Lock lock(process().mutex);
    object<Pool>(handle);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemPoolSetAttribute(CUmemoryPool handle, int attribute, void *value) {
  return api("cuMemPoolSetAttribute", [&] {
    Lock lock(process().mutex);
    Pool &pool = object<Pool>(handle);
    require(value != nullptr, "no value");
    if (attribute == release_threshold)
      pool.threshold = *static_cast<uint64_t *>(value);
    else if (attribute == used_high || attribute == reserved_high) {
      require(*static_cast<uint64_t *>(value) == 0, "a high-water mark can only be set to 0");
      pool.high = pool.used;
    } else
      require(attribute >= reuse_follow && attribute <= reuse_internal, "an attribute that cannot be set");
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemPoolGetAttribute(CUmemoryPool handle, int attribute, void *value) {
  return api("cuMemPoolGetAttribute", [&] {
    Lock lock(process().mutex);
    const Pool &pool = object<Pool>(handle);
    require(value != nullptr && attribute >= reuse_follow && attribute <= used_high, "no place, or no such attribute");
    if (attribute <= reuse_internal) {
      *static_cast<int *>(value) = 1;
      return CUDA_SUCCESS;
    }
    bool high = attribute == used_high || attribute == reserved_high;
    *static_cast<uint64_t *>(value) = attribute == release_threshold ? pool.threshold : high ? pool.high : pool.used;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CudaAccess *, size_t) {
  const CalledAs name("cuMemPoolSetAccess");
  return cuMemPoolTrimTo(handle, 0);
}

EMU_API CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool handle, CudaMemLocation *location) {
  return api("cuMemPoolGetAccess", [&] {
    Lock lock(process().mutex);
    require(flags != nullptr && location != nullptr, "no place for the flags, or no location");
    constexpr int read_write = 3;
    *flags = object<Pool>(handle).device->ordinal == location->id ? read_write : 0;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  return api_value("cuDeviceGetDefaultMemPool", pool, "pool",
                   [&] { return handle_of<CUmemoryPool>(&with_pools(device_at(device)).default_pool); });
}

EMU_API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
  return api_value("cuDeviceGetMemPool", pool, "pool",
                   [&] { return handle_of<CUmemoryPool>(with_pools(device_at(device)).pool); });
}

EMU_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return api("cuDeviceSetMemPool", [&] {
    Lock lock(process().mutex);
    Pool &chosen = object<Pool>(pool);
    require(chosen.device == &with_pools(device_at(device)), "a pool of another device");
    chosen.device->pool = &chosen;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CudaMemLocation *location, int) {
  const CalledAs name("cuMemGetDefaultMemPool");
  return with_device(location, [&](CUdevice device) { return cuDeviceGetDefaultMemPool(pool, device); });
}
EMU_API CUresult cuMemGetMemPool(CUmemoryPool *pool, CudaMemLocation *location, int) {
  const CalledAs name("cuMemGetMemPool");
  return with_device(location, [&](CUdevice device) { return cuDeviceGetMemPool(pool, device); });
}
EMU_API CUresult cuMemSetMemPool(CudaMemLocation *location, int, CUmemoryPool pool) {
  const CalledAs name("cuMemSetMemPool");
  return with_device(location, [&](CUdevice device) { return cuDeviceSetMemPool(device, pool); });
}

/// Memory of graphs is given back with them.
EMU_API CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return api("cuDeviceGraphMemTrim", [&] {
    Lock lock(process().mutex);
    device_at(device);
    return CUDA_SUCCESS;
  });
}
