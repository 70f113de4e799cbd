#include "on_gpu.h"

#include <algorithm>

#include "core/operands.h"
#include "driver.h"
#include "judge/number.h"
#include "library.h"

namespace fa::tool {
namespace {

using DevicePointer = unsigned long long;

DevicePointer address(const void *p) {
  return reinterpret_cast<DevicePointer>(p);
}

/// Makes the device's primary context current.
void enter(int32_t device_index) {
  int device = 0;
  void *context = nullptr;
  call("cuInit", 0u);
  call("cuDeviceGet", &device, int{device_index});
  if (const int result = ask("cuDevicePrimaryCtxRetain", &context, device))
    failure("GPU {} is not available now: cuDevicePrimaryCtxRetain: {}; fa run --device cpu does without it",
            device_index, error_name(result));
  call("cuCtxSetCurrent", context);
}

/// Bytes from the first element to the end of the last; strides of files and of benchmarks are never negative.
size_t bytes_of(const fa_tensor &t) {
  int64_t elements = 1;
  for (int i = 0; i < 4; ++i) {
    if (t.shape[i] == 0) return 0;
    elements += (t.shape[i] - 1) * t.stride[i];
  }
  return static_cast<size_t>(elements * test::dtype_bytes(t.dtype));
}

}  // namespace

bool is_gpu_kernel(const std::string &kernel) {
  return kernel.rfind("cuda.", 0) == 0;
}

OnGpu::OnGpu(const fa_args &host, const fa_op *op, int64_t sequences, int32_t device_index) : args(host), host_(host) {
  enter(device_index);
  for (const TensorField &t : tensor_fields) move(&(args.*t.given));
  for (const ArrayField &a : array_fields) move(&(args.*a.given), a.entries(sequences));
  args.workspace = nullptr;
  args.workspace_size = 0;
  check(fa_workspace_size(op, &args, &args.workspace_size));
  if (args.workspace_size == 0) return;
  DevicePointer memory = 0;
  call("cuMemAlloc_v2", &memory, args.workspace_size);
  args.workspace = workspace_ = reinterpret_cast<void *>(memory);
}

OnGpu::~OnGpu() {
  for (const auto &[from, to] : copies_) ask("cuMemFree_v2", address(to));
  if (workspace_) ask("cuMemFree_v2", address(workspace_));
}

void *OnGpu::copy(const void *host, size_t bytes) {
  DevicePointer memory = 0;
  call("cuMemAlloc_v2", &memory, std::max<size_t>(bytes, 1));
  void *to = copies_[host] = reinterpret_cast<void *>(memory);
  if (bytes) call("cuMemcpyHtoD_v2", memory, host, bytes);
  return to;
}

void OnGpu::move(fa_tensor *tensor) {
  if (tensor->data) tensor->data = copy(tensor->data, bytes_of(*tensor));
}

void OnGpu::move(const int32_t **array, int64_t count) {
  if (*array) *array = static_cast<int32_t *>(copy(*array, static_cast<size_t>(count) * sizeof(int32_t)));
}

void OnGpu::wait() const {
  call("cuCtxSynchronize");
}

void OnGpu::fetch() const {
  wait();
  for (const TensorField &t : tensor_fields) {
    const fa_tensor &to = host_.*t.given, &from = args.*t.given;
    if (t.access == Access::written && to.data) call("cuMemcpyDtoH_v2", to.data, address(from.data), bytes_of(to));
  }
}

}  // namespace fa::tool
