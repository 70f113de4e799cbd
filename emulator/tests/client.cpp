// Loading the library, once.
#include "client.h"

#include <dlfcn.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace emulated {

void *function(const char *name) {
  static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) throw std::runtime_error(dlerror());
  void *found = dlsym(library, name);
  if (!found) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  return found;
}

void start() {
  static const bool started = [] {
    CUcontext context = nullptr;
    if (call("cuInit", 0u) != CUDA_SUCCESS) throw std::runtime_error("cuInit failed");
    call("cuDevicePrimaryCtxRetain", &context, 0);
    return call("cuCtxSetCurrent", context) == CUDA_SUCCESS;
  }();
  if (!started) throw std::runtime_error("no context");
}

int capability() {
  int major = 0, minor = 0;
  call("cuDeviceGetAttribute", &major, 75, 0);
  call("cuDeviceGetAttribute", &minor, 76, 0);
  return major * 10 + minor;
}

std::string read_file(const std::string &name) {
  std::ifstream file(name);
  if (!file) throw std::runtime_error("no file " + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

CUfunction kernel(const std::string &ptx, const char *name) {
  CUmodule module = nullptr;
  CUfunction result = nullptr;
  CUresult loaded = call("cuModuleLoadData", &module, static_cast<const void *>(ptx.c_str()));
  if (loaded != CUDA_SUCCESS) throw std::runtime_error("cuModuleLoadData gives " + std::to_string(loaded));
  CUresult found = call("cuModuleGetFunction", &result, module, name);
  if (found != CUDA_SUCCESS) throw std::runtime_error("cuModuleGetFunction gives " + std::to_string(found));
  return result;
}

}  // namespace emulated
