// Information about the library, and the settings of the whole process.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "api/boundary.h"
#include "api/refuse.h"
#include "api/struct_size.h"
#include "core/log.h"
#include "core/status.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "dispatch/table.h"

namespace fa::api {
namespace {

#if defined(__x86_64__)
#define FA_BUILT_FOR "x86_64"
#elif defined(__aarch64__)
#define FA_BUILT_FOR "aarch64"
#else
#define FA_BUILT_FOR "another architecture"
#endif

#if defined(__clang__)
#define FA_BUILT_BY "clang " __clang_version__
#else
#define FA_BUILT_BY "gcc " __VERSION__
#endif

/// The build's one line, put together once.
struct BuildInfo {
  char text[1024];

  BuildInfo() {
    size_t length = append(0, "libfa " FA_VERSION_STRING ", " FA_BUILT_BY ", " FA_BUILT_FOR);
    MessageBuffer buffer;
    if (const char *toolkit = cuda::toolkit(&buffer)) length = append(append(length, ", "), toolkit);
    length = append(length, ", kernels:");
    for (size_t i = 0; i < dispatch::kernel_count(); ++i) {
      length = append(length, " ");
      length = append(length, dispatch::kernel(i).name);
    }
  }

  /// The length after appending; text beyond the room is cut.
  size_t append(size_t length, const char *more) {
    const size_t room = sizeof text - 1 - length;
    const size_t size = std::min(std::strlen(more), room);
    std::memcpy(text + length, more, size);
    text[length + size] = '\0';
    return length + size;
  }
};

/// fa_kernel.device. No kernel is for FA_DEVICE_AUTO.
const char *device_name(fa_device device) {
  switch (static_cast<decltype(FA_DEVICE_AUTO)>(device)) {
    case FA_DEVICE_CPU:
      return "cpu";
    case FA_DEVICE_CUDA:
      return "cuda";
    case FA_DEVICE_AUTO:
      break;
  }
  __builtin_unreachable();
}

constexpr const char *status_names[] = {
    "FA_OK",
    "FA_ERROR_INVALID_ARGUMENT",
    "FA_ERROR_UNSUPPORTED",
    "FA_ERROR_NO_DEVICE",
    "FA_ERROR_OUT_OF_MEMORY",
    "FA_ERROR_DRIVER",
};

constexpr StructSizeRule<fa_kernel> kernel_size_rule = {
    "fa_kernel", offsetof(fa_kernel, name) + sizeof(fa_kernel::name), "set it to sizeof(fa_kernel) before the call"};

bool check_index(int32_t index) {
  return in_range("index", index, 0, fa_kernel_count() - 1, "kernels, best first");
}

bool kernel_info(int32_t index, fa_kernel *info) {
  if (!info) return refuse("info is NULL; expected an fa_kernel whose struct_size is set");
  if (!check_struct_size(kernel_size_rule, info->struct_size)) return false;
  if (!check_index(index)) return false;
  const KernelEntry &kernel = dispatch::kernel(static_cast<size_t>(index));
  fa_kernel described = {};
  described.name = kernel.name;
  described.device = device_name(kernel.device);
  described.arch = kernel.arch;
  described.compute_dtypes = kernel.compute_dtypes;
  described.num_backward = static_cast<int32_t>(kernel.backward.count);
  described.unavailable_reason = kernel.unavailable_reason(kernel);
  described.available = !described.unavailable_reason;
  if (described.available) described.unavailable_reason = "";
  initialise(info, info->struct_size, described);
  return true;
}

/// nullptr after an error.
const char *backward_name(int32_t index, int32_t i) {
  if (!check_index(index)) return nullptr;
  const KernelEntry &kernel = dispatch::kernel(static_cast<size_t>(index));
  const auto count = static_cast<int32_t>(kernel.backward.count);
  if (count == 0) {
    refuse("i is %d, but kernel %s computes no gradients (num_backward is 0)", i, kernel.name);
    return nullptr;
  }
  return in_range("i", i, 0, count - 1, "kernels that compute gradients, best first") ? kernel.backward.names[i]
                                                                                      : nullptr;
}

}  // namespace
}  // namespace fa::api

const char *fa_last_error() {
  return fa::last_error();
}

const char *fa_status_string(fa_status status) {
  const auto &names = fa::api::status_names;
  return status >= 0 && status < static_cast<fa_status>(std::size(names)) ? names[status] : "unknown fa_status";
}

int32_t fa_version() {
  return FA_VERSION_MAJOR * 10000 + FA_VERSION_MINOR * 100 + FA_VERSION_PATCH;
}

const char *fa_build_info() {
  const char *text;
  fa::in_default_state([&](fa::CallerState &) {
    static const fa::api::BuildInfo info;
    text = info.text;
  });
  return text;
}

int32_t fa_kernel_count() {
  return static_cast<int32_t>(fa::dispatch::kernel_count());
}

fa_status fa_kernel_info(int32_t index, fa_kernel *info) {
  return fa::api::guarded(
      [=](fa::CallerState &) { return fa::api::kernel_info(index, info) ? FA_OK : FA_ERROR_INVALID_ARGUMENT; });
}

const char *fa_kernel_backward_name(int32_t index, int32_t i) {
  const char *name = nullptr;
  fa::api::guarded([&](fa::CallerState &) {
    name = fa::api::backward_name(index, i);
    return name != nullptr ? FA_OK : FA_ERROR_INVALID_ARGUMENT;
  });
  return name != nullptr ? name : "";
}

void fa_set_log(fa_log log, void *user) {
  fa::set_log(log, user);
}

void fa_shutdown() {
  fa::api::guarded([](fa::CallerState &) {
    fa::cpu::shutdown();
    return FA_OK;
  });
}
