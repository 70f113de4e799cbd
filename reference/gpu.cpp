#include "reference/gpu.h"

#include <dlfcn.h>

#include <mutex>
#include <stdexcept>

namespace reference {
namespace {

bool sharing = false;

/// A function of the driver, by the name that the loader knows.
template <class... Arguments>
int call(const char *name, Arguments... arguments) {
  static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
  void *function = library ? dlsym(library, name) : nullptr;
  if (function == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}

std::string error_name(int result) {
  const char *name = nullptr;
  call("cuGetErrorName", result, &name);
  return name ? name : "an unknown error";
}

/// Makes the first GPU's primary context current in this thread; after a reset it is retained again.
void enter() {
  static std::mutex retaining;
  static void *context = nullptr;
  const std::lock_guard lock(retaining);
  unsigned flags = 0;
  int active = 0;
  if (context == nullptr) {
    if (const int result = call("cuInit", 0u)) throw std::runtime_error("cuInit: " + error_name(result));
  } else if (const int result = call("cuDevicePrimaryCtxGetState", 0, &flags, &active)) {
    throw std::runtime_error("cuDevicePrimaryCtxGetState: " + error_name(result));
  }
  if (active == 0) {
    if (const int result = call("cuDevicePrimaryCtxRetain", &context, 0))
      throw std::runtime_error("cuDevicePrimaryCtxRetain: " + error_name(result));
  }
  if (const int result = call("cuCtxSetCurrent", context))
    throw std::runtime_error("cuCtxSetCurrent: " + error_name(result));
}

}  // namespace

bool is_gpu(const std::string &kernel) {
  return kernel.rfind("cuda", 0) == 0 || kernel.rfind("sm_", 0) == 0;
}

void share_memory(bool shared) {
  sharing = shared;
}

bool share_bytes(void *data, size_t bytes) {
  if (!sharing || bytes == 0) return false;
  enter();
  const int result = call("cuMemHostRegister_v2", data, bytes, 0u);
  if (result != 0) throw std::runtime_error("cuMemHostRegister: " + error_name(result));
  return true;
}

void unshare_bytes(void *data) {
  call("cuMemHostUnregister", data);
}

std::string wait_for_gpu() {
  if (!sharing) return "";
  enter();
  const int result = call("cuCtxSynchronize");
  if (result == 0) return "";
  call("cuDevicePrimaryCtxReset_v2", 0);
  enter();  // or memory that is shared could not be given back
  return error_name(result);
}

}  // namespace reference
