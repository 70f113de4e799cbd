// A program that uses CUDA as programs do: it loads libcuda.so.1 and calls its functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/cuda.h"

namespace emulated {

/// The library's functions, by the names that the loader knows.
template <class... Arguments>
CUresult call(const char *name, Arguments... arguments);
void *function(const char *name);

template <class... Arguments>
CUresult call(const char *name, Arguments... arguments) {
  return reinterpret_cast<CUresult (*)(Arguments...)>(function(name))(arguments...);
}

/// Makes device 0's primary context current; once a process.
void start();
/// The compute capability, as 80 or 100.
int capability();
std::string read_file(const std::string &name);
CUfunction kernel(const std::string &ptx, const char *name);

/// An array in device memory.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T> &values) : size_(values.size()) {
    call("cuMemAlloc_v2", &address, size_ * sizeof(T));
    call("cuMemcpyHtoD_v2", address, static_cast<const void *>(values.data()), size_ * sizeof(T));
  }
  ~Array() { call("cuMemFree_v2", address); }
  Array(const Array &) = delete;
  Array &operator=(const Array &) = delete;
  std::vector<T> values() const {
    std::vector<T> result(size_);
    call("cuMemcpyDtoH_v2", static_cast<void *>(result.data()), address, size_ * sizeof(T));
    return result;
  }
  CUdeviceptr address = 0;

 private:
  size_t size_;
};

struct Shape {
  unsigned x = 1, y = 1, z = 1;
};

/// Launches and waits: the launch's own error, or else the kernel's.
template <class... Parameters>
CUresult launch(CUfunction function, Shape grid, Shape block, unsigned shared, Parameters... parameters) {
  void *pointers[] = {&parameters..., nullptr};
  CUresult launched =
      call("cuLaunchKernel", function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared,
           static_cast<CUstream>(nullptr), static_cast<void **>(pointers), static_cast<void **>(nullptr));
  return launched == CUDA_SUCCESS ? call("cuCtxSynchronize") : launched;
}

}  // namespace emulated
