// libcuda.so.1 by dlopen, so that libfa loads on machines without it, and its functions by cuGetProcAddress in the
// versions that we were written against.
#include "cuda/driver.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>

#include "core/status.h"
#include "core/text.h"
#include "cuda/toolkit.h"

namespace fa::cuda {
namespace {

using GetProcAddress = CUresult (*)(const char *, void **, int, uint64_t, int *);

/// Name and text of a result; "" where the driver does not know it either.
struct Described {
  const char *name = nullptr, *text = nullptr;
  Described(const Driver &driver, CUresult result) {
    if (driver.cuGetErrorName != nullptr) driver.cuGetErrorName(result, &name);
    if (driver.cuGetErrorString != nullptr) driver.cuGetErrorString(result, &text);
    if (name == nullptr) name = "an unknown error";
    if (text == nullptr) text = "";
  }
};

/// Finds one function. False, with the reason in text, when the driver lacks it.
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
    std::snprintf(text, bytes, "NVIDIA's driver has no %s: expected one of version %s", name,
                  driver_for(needed_driver_version()));
  } else {
    const Described error(driver, result);
    std::snprintf(text, bytes, "cuGetProcAddress(\"%s\") failed: %s (%s)", name, error.name, error.text);
  }
  return false;
}

bool find_functions(GetProcAddress find, Driver *driver, char *text, size_t bytes) {
#define FA_CUDA_FUNCTION(name, version, ...) \
  if (!find_function(find, #name, version, &driver->name, *driver, text, bytes)) return false;
// An older driver would give an older form of the function.
#define FA_CUDA_LATER_FUNCTION(member, name, since, ...)                                                     \
  if (driver->version >= since && !find_function(find, #name, since, &driver->member, *driver, text, bytes)) \
    return false;
#include "cuda/driver.inc"
#undef FA_CUDA_LATER_FUNCTION
#undef FA_CUDA_FUNCTION
  return true;
}

/// The advice next to a newer driver, where there is any: nothing where functions that are called are missing.
const char *other_advice(int version) {
  return version >= 12000 ? ", or build libfa with -DFA_CUDA=12, whose kernels run on drivers from 525 on" : "";
}

bool check_version(Driver *driver, char *text, size_t bytes) {
  if (const CUresult result = driver->cuDriverGetVersion(&driver->version); result != CUDA_SUCCESS) {
    const Described error(*driver, result);
    std::snprintf(text, bytes, "cuDriverGetVersion failed: %s (%s)", error.name, error.text);
    return false;
  }
  const int version = driver->version, needed = needed_driver_version();
  if (version >= needed) return true;
  std::snprintf(text, bytes,
                "NVIDIA's driver is for CUDA %d.%d, and the kernels of this build need one for %d.%d: update the "
                "driver to %s%s",
                version / 1000, version % 1000 / 10, needed / 1000, needed % 1000 / 10, driver_for(needed),
                other_advice(version));
  return false;
}

}  // namespace

bool load_driver(Driver *driver, char *text, size_t bytes) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char *reason = dlerror();
    std::snprintf(text, bytes, "NVIDIA's driver was not found (%s)", reason ? reason : "libcuda.so.1");
    return false;
  }
  const auto find = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) {
    std::snprintf(text, bytes, "NVIDIA's driver is older than CUDA 12: update it to %s",
                  driver_for(needed_driver_version()));
    return false;
  }
  // The version first: an old driver lacks functions, and the error is about its version.
  if (!find_function(find, "cuGetErrorName", 6000, &driver->cuGetErrorName, *driver, text, bytes) ||
      !find_function(find, "cuGetErrorString", 6000, &driver->cuGetErrorString, *driver, text, bytes) ||
      !find_function(find, "cuDriverGetVersion", 2020, &driver->cuDriverGetVersion, *driver, text, bytes) ||
      !check_version(driver, text, bytes)) {
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
  print_text(rest, sizeof rest, more, arguments);
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
