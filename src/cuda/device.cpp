#include "cuda/device.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <type_traits>

namespace fa::cuda {
namespace {

std::atomic<bool> forked{false};

struct Query {
  int attribute;
  int *to;
  int otherwise = 0;  // of a hint that the driver does not give
};

/// Asks for everything of device index; the name of the call that failed, or nullptr. Hints that the
/// driver does not give are no errors: sizes and rates are not known then, and an allocation says whether it can be
/// made.
const char *describe(const Driver &driver, int index, Device *device, CUresult *result) {
  int major = 0, minor = 0, pools = 0, pageable = 0, host_tables = 0, clock = 0, memory_clock = 0, bus_bits = 0;
  const Query needed[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->sm_count},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &device->shared_per_block},
  };
  const Query hints[] = {
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &clock},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &memory_clock},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &bus_bits},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &device->shared_per_sm},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, &device->threads_per_sm},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &device->l2_bytes},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &pools, 1},
      {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, &pageable},
      {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, &host_tables},
  };
  device->index = index;
  if ((*result = driver.cuDeviceGet(&device->handle, index)) != CUDA_SUCCESS) return "cuDeviceGet";
  if (driver.cuDeviceGetName(device->name, sizeof device->name, device->handle) != CUDA_SUCCESS)
    std::snprintf(device->name, sizeof device->name, "without a name");
  for (const Query &query : needed)
    if ((*result = driver.cuDeviceGetAttribute(query.to, query.attribute, device->handle)) != CUDA_SUCCESS)
      return "cuDeviceGetAttribute";
  for (const Query &query : hints)
    if (driver.cuDeviceGetAttribute(query.to, query.attribute, device->handle) != CUDA_SUCCESS)
      *query.to = query.otherwise;
  device->capability = 10 * major + minor;
  // Twice a clock, whatever the kind of memory: the driver has its clocks so. 0 where one of the numbers is not known.
  if (clock > 0 && device->sm_count > 0)
    device->memory_rate = 2.0 * memory_clock * (bus_bits / 8.0) / (static_cast<double>(clock) * device->sm_count);
  device->pools = pools != 0;
  device->pageable = pageable != 0;
  device->host_tables = host_tables != 0;
  return nullptr;
}

const char *name_of(const Driver &driver, CUresult result) {
  const char *name = nullptr;
  driver.cuGetErrorName(result, &name);
  return name != nullptr ? name : "an unknown error";
}

/// A device that the driver does not describe leaves the others as they are.
void find(const Driver &driver, int index, Device *device) {
  CUresult result = CUDA_SUCCESS;
  const char *call = describe(driver, index, device, &result);
  if (call == nullptr) return;
  char name[sizeof device->name + 4] = "";
  if (*device->name) std::snprintf(name, sizeof name, " (%s)", device->name);
  std::snprintf(device->unavailable_reason, sizeof device->unavailable_reason,
                "NVIDIA's driver does not describe device %d%s: %s failed: %s", index, name, call,
                name_of(driver, result));
}

}  // namespace

Machine::Machine() {
  if (!load_driver(&driver, why_none, sizeof why_none)) return;
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
  int count = 0;
  const CUresult result = driver.cuDeviceGetCount(&count);
  if (result == CUDA_SUCCESS) {
    if (count == 0) {
      std::snprintf(why_none, sizeof why_none, "NVIDIA's driver finds no GPU");
      return;
    }
    device_count = std::min(count, max_devices);
    for (int i = 0; i < device_count; i++) find(driver, i, &devices[i]);
    return;
  }
  std::snprintf(why_none, sizeof why_none, "NVIDIA's driver does not list its GPUs: cuDeviceGetCount failed: %s",
                name_of(driver, result));
}

const char *forked_reason() {
  return !forked.load(std::memory_order_relaxed)
             ? nullptr
             : "this process was forked from one that had started NVIDIA's driver, which does not work in both: fork "
               "before libfa is used, or start a new process (Python: multiprocessing's \"spawn\")";
}

const Machine &machine() {
  static_assert(std::is_trivially_destructible_v<Machine>);
  static const Machine it;
  return it;
}

}  // namespace fa::cuda
