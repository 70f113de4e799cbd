// libcuda.so.1 by dlopen, so that libfa loads on machines without it, and its functions by cuGetProcAddress in the
// versions that we were written against.
#include "cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "core/status.h"

// The version of CUDA that built the kernels: 13000 for 13.0.
#ifndef FA_KERNEL_CUDA_VERSION
#define FA_KERNEL_CUDA_VERSION 12050
#endif

namespace fa::cuda {
namespace {

/// Kernels run on drivers of their toolkit's major version; we call functions of 12.5.
constexpr int needed_version = std::max(FA_KERNEL_CUDA_VERSION / 1000 * 1000, 12050);

/// The first driver for a version of CUDA.
constexpr const char *first_driver(int version) {
  return version >= 13000 ? "580" : "555";
}

using GetProcAddress = CUresult (*)(const char *, void **, int, uint64_t, int *);

/// Name and text of a result; "" for what the driver does not know either.
struct Described {
  const char *name = nullptr, *text = nullptr;
  Described(const Driver &driver, CUresult result) {
    if (driver.cuGetErrorName != nullptr) driver.cuGetErrorName(result, &name);
    if (driver.cuGetErrorString != nullptr) driver.cuGetErrorString(result, &text);
    if (name == nullptr) name = "an unknown error";
    if (text == nullptr) text = "";
  }
};

/// Finds one function. False, with the reason in text, when there is none.
template <class Function>
bool find_function(GetProcAddress find, const char *name, int version, Function *function, const Driver &driver,
                   char *text, size_t bytes) {
  void *found = nullptr;
  const CUresult result = find(name, &found, version, 0, nullptr);
  if (result == CUDA_SUCCESS && found != nullptr) {
    *function = reinterpret_cast<Function>(found);
    return true;
  }
  if (result == CUDA_SUCCESS) {
    std::snprintf(text, bytes, "NVIDIA's driver has no %s: expected one of version %s or later", name,
                  first_driver(needed_version));
  } else {
    const Described error(driver, result);
    std::snprintf(text, bytes, "cuGetProcAddress(\"%s\") failed: %s (%s)", name, error.name, error.text);
  }
  return false;
}

bool find_functions(GetProcAddress find, Driver *driver, char *text, size_t bytes) {
#define FA_CUDA_FUNCTION(name, version, ...) \
  if (!find_function(find, #name, version, &driver->name, *driver, text, bytes)) return false;
#include "cuda/driver.inc"
#undef FA_CUDA_FUNCTION
  return true;
}

bool check_version(const Driver &driver, char *text, size_t bytes) {
  int version = 0;
  if (const CUresult result = driver.cuDriverGetVersion(&version); result != CUDA_SUCCESS) {
    const Described error(driver, result);
    std::snprintf(text, bytes, "cuDriverGetVersion failed: %s (%s)", error.name, error.text);
    return false;
  }
  if (version >= needed_version) return true;
  std::snprintf(text, bytes,
                "NVIDIA's driver is for CUDA %d.%d, and the kernels of this build need one for %d.%d: update the "
                "driver to %s or later, or build libfa with an older CUDA toolkit",
                version / 1000, version % 1000 / 10, needed_version / 1000, needed_version % 1000 / 10,
                first_driver(needed_version));
  return false;
}

}  // namespace

const int kernel_cuda_version = FA_KERNEL_CUDA_VERSION;

bool load_driver(Driver *driver, char *text, size_t bytes) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char *reason = dlerror();
    std::snprintf(text, bytes, "NVIDIA's driver was not found (%s)", reason ? reason : "libcuda.so.1");
    return false;
  }
  const auto find = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) {
    std::snprintf(text, bytes, "NVIDIA's driver is older than CUDA 12: update it to %s or later",
                  first_driver(needed_version));
    return false;
  }
  // The version first: an old driver lacks functions, and its version is what to tell.
  if (!find_function(find, "cuGetErrorName", 6000, &driver->cuGetErrorName, *driver, text, bytes) ||
      !find_function(find, "cuGetErrorString", 6000, &driver->cuGetErrorString, *driver, text, bytes) ||
      !find_function(find, "cuDriverGetVersion", 2020, &driver->cuDriverGetVersion, *driver, text, bytes) ||
      !check_version(*driver, text, bytes)) {
    return false;
  }
  if (!find_functions(find, driver, text, bytes)) return false;
  const CUresult result = driver->cuInit(0);
  if (result == CUDA_SUCCESS) return true;
  const Described error(*driver, result);
  std::snprintf(text, bytes, "NVIDIA's driver does not start: cuInit failed: %s (%s)", error.name, error.text);
  return false;
}

fa_status failed(const Driver &driver, const char *call, CUresult result, const char *more, ...) {
  char rest[512];
  va_list arguments;
  va_start(arguments, more);
  std::vsnprintf(rest, sizeof rest, more, arguments);
  va_end(arguments);
  const fa_status status = result == CUDA_ERROR_OUT_OF_MEMORY             ? FA_ERROR_OUT_OF_MEMORY
                           : result == CUDA_ERROR_NO_DEVICE               ? FA_ERROR_NO_DEVICE
                           : result == CUDA_ERROR_NO_BINARY_FOR_GPU       ? FA_ERROR_NO_DEVICE
                           : result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ? FA_ERROR_NO_DEVICE
                                                                          : FA_ERROR_DRIVER;
  const Described error(driver, result);
  return fail(status, "%s failed: %s (%s)%s%s", call, error.name, error.text, *rest ? "; " : "", rest);
}

}  // namespace fa::cuda
