// Shared by the programs here: each is linked to NVIDIA's runtime as nvcc does it, and ends with 1 where
// something is not as a GPU would have it.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

inline std::atomic<int> failures{0};

/// A program that has failed so often has nothing more to say, and may be about to crash.
inline void count_failure() {
  if (++failures == 10) std::_Exit(1);
}
inline void expect(bool fine, const char *text, int line) {
  if (fine) return;
  std::fprintf(stderr, "line %d: %s\n", line, text);
  count_failure();
}
inline void expect_error(cudaError_t got, cudaError_t wanted, const char *text, int line) {
  if (got == wanted) return;
  std::fprintf(stderr, "line %d: %s gave %s, not %s\n", line, text, cudaGetErrorName(got), cudaGetErrorName(wanted));
  count_failure();
}

#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define EXPECT_ERROR(call, wanted) expect_error(call, wanted, #call, __LINE__)
#define WORKS(call) EXPECT_ERROR(call, cudaSuccess)

inline int capability() {
  int major = 0, minor = 0;
  WORKS(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  WORKS(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return major * 10 + minor;
}

/// A program's end.
inline int result() {
  if (failures == 0) return 0;
  std::fprintf(stderr, "%d failures on sm_%d\n", failures.load(), capability());
  return 1;
}
