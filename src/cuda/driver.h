// NVIDIA's driver, found at run time: its functions and the part of its binary interface that libfa uses, declared in
// our own words. Names are the API's.
#pragma once

#include <fa.h>

#include <cstddef>
#include <cstdint>

namespace fa::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUlibrary = struct CUlib_st *;
using CUkernel = struct CUkern_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709
};

enum : int {
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115
};

enum : int {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
};
enum : int { CU_MEMORYTYPE_DEVICE = 2 };

inline const CUstream CU_STREAM_PER_THREAD = reinterpret_cast<CUstream>(2);  // the calling thread's own
enum : int { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum : int {
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9
};
enum : int { CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

enum : int { CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9 };
enum : int { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum : int { CU_TENSOR_MAP_SWIZZLE_64B = 2, CU_TENSOR_MAP_SWIZZLE_128B = 3 };
enum : int { CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3 };
enum : int { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };  // zeros

struct CUlaunchAttribute {
  int id;
  int padding;
  union {
    char bytes[64];
    int number;
    unsigned shape[3];
  } value;
};
static_assert(sizeof(CUlaunchAttribute) == 72);

struct CUlaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  CUstream stream;
  CUlaunchAttribute *attributes;
  unsigned attribute_count;
};
static_assert(sizeof(CUlaunchConfig) == 56);

struct Driver {
  int version = 0;  // of CUDA: 12040 for 12.4
#define FA_CUDA_FUNCTION(name, version, ...) CUresult (*name)(__VA_ARGS__) = nullptr;
#define FA_CUDA_LATER_FUNCTION(member, name, version, ...) CUresult (*member)(__VA_ARGS__) = nullptr;
#include "cuda/driver.inc"
#undef FA_CUDA_LATER_FUNCTION
#undef FA_CUDA_FUNCTION
};

/// Loads and initialises the driver. False, with the reason in text, when it is not there or too old.
bool load_driver(Driver *driver, char *text, size_t bytes);

/// Describes a driver call that failed, through core/status.h: "cuLaunchKernelEx failed: CUDA_ERROR_... (its text)",
/// then the advice in more. Returns FA_ERROR_OUT_OF_MEMORY, FA_ERROR_NO_DEVICE or FA_ERROR_DRIVER.
[[gnu::format(printf, 4, 5)]] fa_status failed(const Driver &driver, const char *call, CUresult result,
                                               const char *more, ...);

}  // namespace fa::cuda
