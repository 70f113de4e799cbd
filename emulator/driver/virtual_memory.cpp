// Virtual memory: addresses that are reserved, memory that is made apart from them, and mapped there once or more. The
// memory is a file without a name, so that all its mappings show the same bytes.
#include <sys/mman.h>
#include <unistd.h>

#include "driver/capture.h"
#include "driver/memory_table.h"

using namespace fa::emu::driver;
using fa::emu::memory::RangeKind;

namespace {

constexpr uint64_t granularity = 2 << 20;

/// The memory of cuMemCreate; it lives as long as its handle or a mapping.
struct Physical {
  Device *device = nullptr;
  uint64_t bytes = 0;
  int file = -1;
  CudaMemoryProperties properties = {};
  ~Physical() {
    if (file >= 0) close(file);
    if (device) device->memory->give_back(bytes);
  }
};
using Memory = std::shared_ptr<Physical>;

struct Mapping {
  Memory memory;
  uint64_t bytes = 0;
  int access = 0;  // none, read (1), or both (3)
};

struct Reservation {
  Device *device = nullptr;
  uint64_t bytes = 0;
};

struct Table {
  std::map<uint64_t, Reservation> reservations;
  std::map<uint64_t, Mapping> mappings;
  std::map<uint64_t, Memory> handles;
  std::map<uint64_t, unsigned> references;  // by handle
};

Table &table() {
  static auto *const instance = new Table;
  return *instance;
}

Memory &memory_of(uint64_t handle) {
  auto found = table().handles.find(handle);
  require(found != table().handles.end(), "a handle of no memory, or one that was released");
  return found->second;
}

void check_properties(const CudaMemoryProperties *properties) {
  constexpr int pinned = 1;
  require(properties != nullptr && properties->allocation_type == pinned,
          "the allocation type must be CU_MEM_ALLOCATION_TYPE_PINNED");
  require(properties->handle_types == 0, "the emulator exports no memory", CUDA_ERROR_NOT_SUPPORTED);
  require(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE, "the emulator makes such memory on devices only",
          CUDA_ERROR_NOT_SUPPORTED);
  device_at(properties->location.id);
}

/// The reservation that holds all of a range.
Reservation &reservation_of(uint64_t address, uint64_t bytes) {
  auto after = table().reservations.upper_bound(address);
  require(after != table().reservations.begin(), "addresses that are not reserved");
  auto &[begin, reservation] = *std::prev(after);
  require(address + bytes <= begin + reservation.bytes, "addresses that are not reserved");
  return reservation;
}

/// The mappings that a range consists of; refuses gaps and parts.
std::vector<std::pair<const uint64_t, Mapping> *> mappings_in(uint64_t address, uint64_t bytes) {
  std::vector<std::pair<const uint64_t, Mapping> *> result;
  uint64_t at = address;
  while (at < address + bytes) {
    auto found = table().mappings.find(at);
    require(found != table().mappings.end(), "a range that is not made of whole mappings");
    result.push_back(&*found);
    at += found->second.bytes;
  }
  require(at == address + bytes, "a range that is not made of whole mappings");
  return result;
}

}  // namespace

EMU_API CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr,
                                     cuuint64_t flags) {
  return api("cuMemAddressReserve", [&] {
    Lock lock(process().mutex);
    require(address != nullptr && flags == 0, "no place for the address, or flags that are not 0");
    require(bytes > 0 && bytes % granularity == 0, "sizes are multiples of 2 MiB, see cuMemGetAllocationGranularity");
    require((alignment & (alignment - 1)) == 0, "an alignment that is not a power of two");
    // All devices have one range of addresses; which of them has it does not matter to programs.
    const Context *context = current_if_any();
    Device &device = context ? *context->device : device_at(0);
    uint64_t at = device.memory->reserve(bytes, std::max<uint64_t>(alignment, granularity));
    require(at != 0, "no such range of addresses is left", CUDA_ERROR_OUT_OF_MEMORY);
    table().reservations[at] = {&device, bytes};
    *address = at;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return api("cuMemAddressFree", [&] {
    Lock lock(process().mutex);
    auto found = table().reservations.find(address);
    require(found != table().reservations.end() && found->second.bytes == bytes, "not the reserved range");
    auto inside = table().mappings.lower_bound(address);
    require(inside == table().mappings.end() || inside->first >= address + bytes, "something is mapped there");
    found->second.device->memory->unreserve(address);
    table().reservations.erase(found);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemGetAllocationGranularity(size_t *bytes, const CudaMemoryProperties *properties, int option) {
  return api("cuMemGetAllocationGranularity", [&] {
    require(bytes != nullptr && (option == 0 || option == 1), "no place for the size, or no such option");
    check_properties(properties);
    *bytes = granularity;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemCreate(uint64_t *handle, size_t bytes, const CudaMemoryProperties *properties, cuuint64_t flags) {
  return api("cuMemCreate", [&] {
    Lock lock(process().mutex);
    require(handle != nullptr && flags == 0, "no place for the handle, or flags that are not 0");
    check_properties(properties);
    require(bytes > 0 && bytes % granularity == 0, "sizes are multiples of 2 MiB, see cuMemGetAllocationGranularity");
    require_no_capture();
    Device &device = device_at(properties->location.id);
    auto made = std::make_shared<Physical>();
    require(device.memory->take(bytes), "the device has not that much memory left", CUDA_ERROR_OUT_OF_MEMORY);
    made->device = &device;
    made->bytes = bytes;
    made->properties = *properties;
    made->file = memfd_create("fa-emu", MFD_CLOEXEC);
    require(made->file >= 0 && ftruncate(made->file, static_cast<off_t>(bytes)) == 0, "the host has no memory for it",
            CUDA_ERROR_OUT_OF_MEMORY);
    *handle = ++process().ids;
    table().handles[*handle] = std::move(made);
    table().references[*handle] = 1;
    return CUDA_SUCCESS;
  });
}

/// The memory stays while it is mapped.
EMU_API CUresult cuMemRelease(uint64_t handle) {
  return api("cuMemRelease", [&] {
    Lock lock(process().mutex);
    memory_of(handle);
    if (--table().references[handle] > 0) return CUDA_SUCCESS;
    table().references.erase(handle);
    table().handles.erase(handle);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, uint64_t handle, cuuint64_t flags) {
  return api("cuMemMap", [&] {
    Lock lock(process().mutex);
    Memory &memory = memory_of(handle);
    require(flags == 0 && offset == 0, "flags and the offset must be 0");
    require(bytes > 0 && bytes <= memory->bytes && bytes % granularity == 0 && address % granularity == 0,
            "addresses and sizes are multiples of 2 MiB, within the memory");
    reservation_of(address, bytes);
    auto next = table().mappings.lower_bound(address);
    bool overlaps = next != table().mappings.end() && next->first < address + bytes;
    if (next != table().mappings.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address)
      overlaps = true;
    require(!overlaps, "something is mapped there already");
    void *at =
        mmap(reinterpret_cast<void *>(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->file, 0);
    require(at != MAP_FAILED, "the host could not map it", CUDA_ERROR_OUT_OF_MEMORY);
    table().mappings[address] = {memory, bytes, 0};
    Allocation allocation;
    allocation.device = memory->device;
    allocation.bytes = bytes;
    allocation.id = ++process().ids;
    allocation.mapped = true;
    process().allocations[address] = allocation;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return api("cuMemUnmap", [&] {
    {
      Lock lock(process().mutex);
      mappings_in(address, bytes);
    }
    drain();
    Lock lock(process().mutex);
    for (auto *entry : mappings_in(address, bytes)) {
      auto &[begin, mapping] = *entry;
      mapping.memory->device->memory->hide(begin);
      // Operations that still look there, such as a stream that waits for a value, see zeros.
      mmap(reinterpret_cast<void *>(begin), mapping.bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      process().allocations.erase(begin);
      table().mappings.erase(uint64_t{begin});
    }
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CudaAccess *list, size_t count) {
  return api("cuMemSetAccess", [&] {
    Lock lock(process().mutex);
    require(list != nullptr && count > 0, "no access is described");
    auto mappings = mappings_in(address, bytes);
    for (size_t i = 0; i < count; i++) {
      require(list[i].flags == 0 || list[i].flags == 1 || list[i].flags == 3, "expected access of none, read, or both");
      for (auto *entry : mappings) {
        auto &[begin, mapping] = *entry;
        Device &owner = *mapping.memory->device;
        bool own = list[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && list[i].location.id == owner.ordinal;
        require(own, "the emulator's devices see their own memory only", CUDA_ERROR_NOT_SUPPORTED);
        mapping.access = list[i].flags;
        if (mapping.access)
          owner.memory->show(begin, mapping.bytes);
        else
          owner.memory->hide(begin);
      }
    }
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemGetAccess(unsigned long long *flags, const CudaMemLocation *location, CUdeviceptr address) {
  return api("cuMemGetAccess", [&] {
    Lock lock(process().mutex);
    require(flags != nullptr && location != nullptr, "no place for the flags, or no location");
    auto after = table().mappings.upper_bound(address);
    bool found =
        after != table().mappings.begin() && address < std::prev(after)->first + std::prev(after)->second.bytes;
    require(found, "nothing is mapped there");
    const Mapping &mapping = std::prev(after)->second;
    bool own = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == mapping.memory->device->ordinal;
    *flags = own ? static_cast<unsigned>(mapping.access) : 0;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemRetainAllocationHandle(uint64_t *handle, void *address) {
  return api("cuMemRetainAllocationHandle", [&] {
    Lock lock(process().mutex);
    uint64_t at = reinterpret_cast<uint64_t>(address);
    auto after = table().mappings.upper_bound(at);
    bool found = after != table().mappings.begin() && at < std::prev(after)->first + std::prev(after)->second.bytes;
    require(handle != nullptr && found, "no place for the handle, or nothing is mapped there");
    const Memory &memory = std::prev(after)->second.memory;
    for (const auto &[known, other] : table().handles)
      if (other == memory) {
        table().references[known]++;
        *handle = known;
        return CUDA_SUCCESS;
      }
    *handle = ++process().ids;
    table().handles[*handle] = memory;
    table().references[*handle] = 1;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuMemGetAllocationPropertiesFromHandle(CudaMemoryProperties *properties, uint64_t handle) {
  return api_value("cuMemGetAllocationPropertiesFromHandle", properties, "properties",
                   [&] { return memory_of(handle)->properties; });
}
