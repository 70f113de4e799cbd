// The declarations of NVIDIA's driver API that the emulator offers: types and numbers of the binary interface, in our
// own words. Names are the API's.
#pragma once

#include <cstddef>
#include <cstdint>

#define EMU_API extern "C" __attribute__((visibility("default")))

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUlibrary = struct CUlib_st *;
using CUkernel = struct CUkern_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;

enum CUresult : int {
#define EMU_ERROR(name, number, text) name = number,
#include "driver/errors.inc"
#undef EMU_ERROR
};

using CUdevice_attribute = int;  // driver/attributes.cpp has their meanings
using CUfunction_attribute = int;
using CUjit_option = int;
using cuuint64_t = uint64_t;

struct CUuuid {
  char bytes[16];
};

enum : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
  CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
  CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
};

/// Entries of cuLaunchKernel's extra array.
#define CU_LAUNCH_PARAM_END_VALUE 0
#define CU_LAUNCH_PARAM_BUFFER_POINTER_VALUE 1
#define CU_LAUNCH_PARAM_BUFFER_SIZE_VALUE 2
