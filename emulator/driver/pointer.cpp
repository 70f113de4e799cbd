// Attributes of pointers: cuPointerGetAttribute and its kin.
#include <cstring>

#include "driver/memory_table.h"

using namespace fa::emu::driver;
using fa::emu::memory::RangeKind;

namespace {

enum PointerAttribute : int {
  of_context = 1,
  memory_type,
  device_pointer,
  host_pointer,
  p2p_tokens,
  sync_memops,
  buffer_id,
  is_managed,
  device_ordinal,
  legacy_ipc,
  range_start,
  range_size,
  mapped,
  handle_types,
  gpu_direct,
  access_flags,
  pool_handle,
  last_attribute = 21,
};

template <class T>
CUresult store(void *place, T value) {
  std::memcpy(place, &value, sizeof value);
  return CUDA_SUCCESS;
}

/// Attributes that the API calls boolean have four bytes, as callers reserve and read them (unsigned or int).
CUresult store_flag(void *place, bool value) {
  return store(place, value ? 1u : 0u);
}

/// For addresses that the driver does not know most attributes are an error.
CUresult store_attribute(void *place, int attribute, CUdeviceptr address) {
  const Allocation *allocation = find_allocation(address);
  if (!allocation) return CUDA_ERROR_INVALID_VALUE;
  bool on_host = allocation->kind == RangeKind::host, managed = allocation->kind == RangeKind::managed;
  uint64_t begin = std::prev(process().allocations.upper_bound(address))->first;
  switch (attribute) {
    case of_context:
      return store(place, allocation->pool ? nullptr : allocation->context);
    case memory_type:
      return store(place, on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case device_pointer:
      current();  // whose address it is; refuses without one
      return store(place, address + static_cast<uint64_t>(allocation->to_device));
    case host_pointer:
      if (!on_host && !managed) return CUDA_ERROR_INVALID_VALUE;
      return store(place, address + static_cast<uint64_t>(allocation->to_host));
    case sync_memops:
    case legacy_ipc:
    case gpu_direct:
      return store_flag(place, false);
    case buffer_id:
      return store(place, allocation->id);
    case is_managed:
      return store_flag(place, managed);
    case device_ordinal:
      return store(place, allocation->device->ordinal);
    case range_start:
      return store(place, begin);
    case range_size:
      return store(place, static_cast<size_t>(allocation->bytes));
    case mapped:
      return store_flag(place, true);
    case handle_types:
      return store(place, uint64_t{0});
    case access_flags:
      return store(place, 3);
    case pool_handle:
      return store(place, allocation->pool);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

EMU_API CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address) {
  return api("cuPointerGetAttribute", [&] {
    Lock lock(process().mutex);
    require(value != nullptr && attribute >= 1 && attribute <= last_attribute, "no place, or no such attribute");
    return store_attribute(value, attribute, address);
  });
}

/// Unlike the function for one attribute, this one stores zeros for unknown addresses.
EMU_API CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr address) {
  return api("cuPointerGetAttributes", [&] {
    Lock lock(process().mutex);
    require(count > 0 && attributes != nullptr && values != nullptr, "no attributes, or no places");
    for (unsigned i = 0; i < count; i++) {
      require(values[i] != nullptr && attributes[i] >= 1 && attributes[i] <= last_attribute, "no such attribute");
      if (store_attribute(values[i], attributes[i], address) == CUDA_SUCCESS) continue;
      bool is_bool = attributes[i] == sync_memops || attributes[i] == is_managed || attributes[i] == mapped ||
                     attributes[i] == legacy_ipc || attributes[i] == gpu_direct;
      if (is_bool)
        store_flag(values[i], false);
      else if (attributes[i] == memory_type)
        store(values[i], 0);
      else if (attributes[i] == device_ordinal)
        store(values[i], -2);
      else if (attributes[i] == access_flags)
        store(values[i], 0);
      else
        store(values[i], uint64_t{0});
    }
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr address) {
  return api("cuPointerSetAttribute", [&] {
    Lock lock(process().mutex);
    require(value != nullptr && attribute == sync_memops && find_allocation(address), "not an attribute to be set");
    return CUDA_SUCCESS;
  });
}
