#include "on_gpu.h"

#include <algorithm>
#include <type_traits>

#include "core/operands.h"
#include "driver.h"
#include "reference/number.h"
#include "library.h"

namespace fa::tool {
namespace {

using DevicePointer = unsigned long long;

DevicePointer address(const void *p) {
  return reinterpret_cast<DevicePointer>(p);
}

/// The call that a structure describes, and what says how large its workspace is.
struct Forward {
  using Call = ForwardCall;
  static constexpr auto size = fa_forward_workspace_size;
};
struct Gradients {
  using Call = BackwardCall;
  static constexpr auto size = fa_backward_workspace_size;
};
template <class Args>
using Pass = std::conditional_t<std::is_same_v<Args, fa_forward_args>, Forward, Gradients>;
template <class Args>
using FieldsOf = Fields<typename Pass<Args>::Call>;

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
  return static_cast<size_t>(elements * reference::dtype_bytes(t.dtype));
}

}  // namespace

bool is_gpu_kernel(const std::string &kernel) {
  return kernel.rfind("cuda.", 0) == 0;
}

template <class Args>
OnGpu<Args>::OnGpu(const Args &host, const fa_op *op, int64_t sequences, int32_t device_index)
    : args(host), host_(host) {
  enter(device_index);
  for (const auto &t : FieldsOf<Args>::tensors) move(&(args.*t.given));
  for (const auto &a : FieldsOf<Args>::arrays) move(&(args.*a.given), a.entries(sequences));
  args.workspace = nullptr;
  args.workspace_size = 0;
  check(Pass<Args>::size(op, &args, &args.workspace_size));
  if (args.workspace_size == 0) return;
  DevicePointer memory = 0;
  call("cuMemAlloc_v2", &memory, args.workspace_size);
  args.workspace = workspace_ = reinterpret_cast<void *>(memory);
}

template <class Args>
OnGpu<Args>::~OnGpu() {
  for (const auto &[from, to] : copies_) ask("cuMemFree_v2", address(to));
  if (workspace_) ask("cuMemFree_v2", address(workspace_));
}

template <class Args>
void *OnGpu<Args>::copy(const void *host, size_t bytes) {
  DevicePointer memory = 0;
  call("cuMemAlloc_v2", &memory, std::max<size_t>(bytes, 1));
  void *to = copies_[host] = reinterpret_cast<void *>(memory);
  if (bytes) call("cuMemcpyHtoD_v2", memory, host, bytes);
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
void OnGpu<Args>::wait() const {
  call("cuCtxSynchronize");
}

template <class Args>
void OnGpu<Args>::fetch() const {
  wait();
  for (const auto &t : FieldsOf<Args>::tensors) {
    const fa_tensor &to = host_.*t.given, &from = args.*t.given;
    if (t.access == Access::written && to.data) call("cuMemcpyDtoH_v2", to.data, address(from.data), bytes_of(to));
  }
}

template class OnGpu<fa_forward_args>;
template class OnGpu<fa_backward_args>;

}  // namespace fa::tool
