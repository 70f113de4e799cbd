// Shared by the programs: memory, numbers, and the end.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define OK(call)                                                                           \
  do {                                                                                     \
    cudaError_t status = (call);                                                           \
    if (status != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      std::exit(2);                                                                        \
    }                                                                                      \
  } while (0)

template <typename T>
struct Device {
  T *at = nullptr;
  size_t n;
  explicit Device(size_t count) : n(count) { OK(cudaMalloc(&at, n * sizeof(T))); }
  explicit Device(const std::vector<T> &host) : Device(host.size()) {
    OK(cudaMemcpy(at, host.data(), n * sizeof(T), cudaMemcpyHostToDevice));
  }
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;
  ~Device() { cudaFree(at); }
  std::vector<T> host() const {
    std::vector<T> values(n);
    OK(cudaMemcpy(values.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
};

inline std::vector<int> numbers(size_t n, int below) {
  std::vector<int> values(n);
  uint32_t state = 1;
  for (int &value : values) value = static_cast<int>((state = state * 1664525u + 1013904223u) >> 8) % below;
  return values;
}

inline bool good = true;

inline void expect(const char *what, bool holds) {
  std::printf("%s: %s\n", what, holds ? "as expected" : "WRONG");
  good = good && holds;
}

inline int finish() {
  std::puts(good ? "right" : "WRONG");
  return good ? 0 : 1;
}
