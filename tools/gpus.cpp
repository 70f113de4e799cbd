// Nothing here may fail: unknown fields stay empty, and the library gives the reason where no kernel is available.
#include "gpus.h"

#include <cstdint>
#include <string_view>

#include "driver.h"
#include "library.h"

namespace fa::tool {
namespace {

enum : int { multiprocessor_count = 16, capability_major = 75, capability_minor = 76 };

int attribute(int number, int device) {
  int value = 0;
  return ask("cuDeviceGetAttribute", &value, number, device) == 0 ? value : 0;
}

/// What the driver reports of a device.
Gpu describe(int index) {
  Gpu gpu;
  int device = 0;
  char name[96] = "";
  size_t bytes = 0;
  if (ask("cuDeviceGet", &device, index) != 0) return gpu;
  if (ask("cuDeviceGetName", static_cast<char *>(name), int{sizeof name}, device) == 0) gpu.name = name;
  if (ask("cuDeviceTotalMem_v2", &bytes, device) == 0) gpu.memory_gib = static_cast<double>(bytes) / (1 << 30);
  gpu.multiprocessors = attribute(multiprocessor_count, device);
  gpu.arch = fmt::format("sm_{}{}", attribute(capability_major, device), attribute(capability_minor, device));
  return gpu;
}

/// Asks the library for an attention on a device.
void serve(int32_t index, Gpu &gpu) {
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CUDA;
  desc.device_index = index;
  desc.dtype_q = FA_F16;
  desc.head_dim = 64;
  try {
    gpu.kernel = fa_op_kernel_name(create_op(desc).get());
  } catch (const std::runtime_error &error) {
    gpu.unavailable_reason = error.what();
  }
}

/// Without a GPU each of its kernels gives the same reason.
std::string why_none() {
  for (const fa_kernel &kernel : kernels()) {
    if (std::string_view(kernel.device) == "cuda") return kernel.unavailable_reason;
  }
  return "this build has no GPU kernels (FA_KERNELS=off)";
}

}  // namespace

Gpus find_gpus() {
  Gpus gpus;
  int version = 0, count = 0;
  if (driver_function("cuInit") != nullptr) {
    if (ask("cuDriverGetVersion", &version) == 0)
      gpus.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
    if (ask("cuInit", 0u) != 0 || ask("cuDeviceGetCount", &count) != 0) count = 0;
  }
  for (int i = 0; i < count; ++i) {
    gpus.list.push_back(describe(i));
    serve(i, gpus.list.back());
  }
  if (!gpus.list.empty()) return gpus;
  gpus.why_none = why_none();
  return gpus;
}

}  // namespace fa::tool
