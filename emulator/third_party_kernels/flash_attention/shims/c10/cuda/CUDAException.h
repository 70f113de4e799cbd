// In place of torch's header: the handling of a failing call of the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define C10_CUDA_CHECK(call)                                                                       \
  do {                                                                                             \
    cudaError_t status_of_call = (call);                                                           \
    if (status_of_call != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_of_call)); \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
