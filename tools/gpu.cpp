#include "gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "library.h"
#include "reference/codes.h"
#include "schema/schema.h"

namespace fa::tool {

void *driver_function(const char *name) {
  static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library ? dlsym(library, name) : nullptr;
}

const char *error_name(int result) {
  const char *text = nullptr;
  try_driver("cuGetErrorName", result, &text);
  return text ? text : "an unknown error";
}

namespace {

enum : int { multiprocessor_count = 16, capability_major = 75, capability_minor = 76 };

int attribute(int number, int device) {
  int value = 0;
  return try_driver("cuDeviceGetAttribute", &value, number, device) == 0 ? value : 0;
}

/// The driver's description of a device.
Gpu describe(int index) {
  Gpu gpu;
  int device = 0;
  char name[96] = "";
  size_t bytes = 0;
  if (try_driver("cuDeviceGet", &device, index) != 0) return gpu;
  if (try_driver("cuDeviceGetName", static_cast<char *>(name), int{sizeof name}, device) == 0) gpu.name = name;
  if (try_driver("cuDeviceTotalMem_v2", &bytes, device) == 0) gpu.memory_gib = static_cast<double>(bytes) / (1 << 30);
  gpu.multiprocessors = attribute(multiprocessor_count, device);
  gpu.arch = fmt::format("sm_{}{}", attribute(capability_major, device), attribute(capability_minor, device));
  return gpu;
}

/// Asks the library for an attention on a device.
void choose_kernel(int32_t index, Gpu &gpu) {
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
    if (try_driver("cuDriverGetVersion", &version) == 0)
      gpus.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
    if (try_driver("cuInit", 0u) != 0 || try_driver("cuDeviceGetCount", &count) != 0) count = 0;
  }
  for (int i = 0; i < count; ++i) {
    gpus.list.push_back(describe(i));
    choose_kernel(i, gpus.list.back());
  }
  if (!gpus.list.empty()) return gpus;
  gpus.why_none = why_none();
  return gpus;
}

namespace {

using DevicePointer = unsigned long long;

DevicePointer address(const void *p) {
  return reinterpret_cast<DevicePointer>(p);
}

/// fa_<operation>_workspace_size, by the structure that it takes.
#define FA_SIZE(name, Name, FIELDS)                                                        \
  fa_status workspace_size(const fa_op *op, const fa_##name##_args *args, size_t *bytes) { \
    return fa_##name##_workspace_size(op, args, bytes);                                    \
  }
FA_OPERATIONS(FA_SIZE)
#undef FA_SIZE

/// Makes the device's primary context current.
void enter(int32_t device_index) {
  int device = 0;
  void *context = nullptr;
  call_driver("cuInit", 0u);
  call_driver("cuDeviceGet", &device, int{device_index});
  if (const int result = try_driver("cuDevicePrimaryCtxRetain", &context, device))
    failure("GPU {} is not available now: cuDevicePrimaryCtxRetain: {}; --device cpu does without it", device_index,
            error_name(result));
  call_driver("cuCtxSetCurrent", context);
}

/// Bytes from the first element to the end of the last; strides of files and of benchmarks are never negative.
size_t bytes_of(const fa_tensor &t) {
  int64_t elements = 1;
  for (int i = 0; i < 4; ++i) {
    if (t.shape[i] == 0) return 0;
    elements += (t.shape[i] - 1) * t.stride[i];
  }
  return static_cast<size_t>(reference::row_bytes(t.dtype, elements));
}

}  // namespace

bool is_gpu_kernel(const std::string &kernel) {
  return kernel.rfind("cuda.", 0) == 0;
}

template <class Args>
OnGpu<Args>::OnGpu(const Args &host, const fa_op *op, int64_t sequences, int32_t device_index)
    : args(host), host_(host) {
  enter(device_index);
  for (const auto &t : schema::Fields<Args>::tensors) move(&(args.*t.field));
  for (const auto &a : schema::Fields<Args>::arrays) move(&(args.*a.field), sequences + a.more);
  move_parts();
  args.workspace = nullptr;
  args.workspace_size = 0;
  check(workspace_size(op, &args, &args.workspace_size));
  if (args.workspace_size == 0) return;
  DevicePointer memory = 0;
  call_driver("cuMemAlloc_v2", &memory, args.workspace_size);
  args.workspace = workspace_ = reinterpret_cast<void *>(memory);
}

template <class Args>
OnGpu<Args>::~OnGpu() {
  for (const auto &[from, to] : copies_) try_driver("cuMemFree_v2", address(to));
  if (workspace_) try_driver("cuMemFree_v2", address(workspace_));
}

template <class Args>
void *OnGpu<Args>::copy(const void *host, size_t bytes) {
  DevicePointer memory = 0;
  call_driver("cuMemAlloc_v2", &memory, std::max<size_t>(bytes, 1));
  void *to = copies_[host] = reinterpret_cast<void *>(memory);
  if (bytes) call_driver("cuMemcpyHtoD_v2", memory, host, bytes);
  return to;
}

template <class Args>
void OnGpu<Args>::move(fa_tensor *tensor) {
  if (tensor->data) tensor->data = copy(tensor->data, bytes_of(*tensor));
}

template <class Args>
void OnGpu<Args>::move(const int32_t **array, int64_t count) {
  if (*array) *array = static_cast<int32_t *>(copy(*array, static_cast<size_t>(count) * sizeof(int32_t)));
}

template <class Args>
void OnGpu<Args>::move_parts() {
  if constexpr (std::is_same_v<Args, fa_merge_args>) {
    outs_.assign(host_.outs, host_.outs + host_.num_parts);
    lses_.assign(host_.lses, host_.lses + host_.num_parts);
    for (fa_tensor &each : outs_) move(&each);
    for (fa_tensor &each : lses_) move(&each);
    args.outs = outs_.data();
    args.lses = lses_.data();
  }
}

template <class Args>
void OnGpu<Args>::wait() const {
  call_driver("cuCtxSynchronize");
}

template <class Args>
void OnGpu<Args>::fetch() const {
  wait();
  for (const auto &t : schema::Fields<Args>::tensors) {
    const fa_tensor &to = host_.*t.field, &from = args.*t.field;
    if (t.access != schema::Access::read && to.data)
      call_driver("cuMemcpyDtoH_v2", to.data, address(from.data), bytes_of(to));
  }
}

#define FA_INSTANTIATE(name, Name, FIELDS) template class OnGpu<fa_##name##_args>;
FA_OPERATIONS(FA_INSTANTIATE)
#undef FA_INSTANTIATE

}  // namespace fa::tool
