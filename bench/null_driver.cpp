// A libcuda.so.1 that does nothing: one device whose memory is all memory, launches that return at once. The time of a
// call on it is libfa's own. FA_NULL_SM=90 makes the device one of SM 90; fa_null_driver_calls counts calls.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "cuda/driver.h"

#define NULL_API extern "C" __attribute__((visibility("default")))

using namespace fa::cuda;

namespace {

template <class T>
CUresult give(T *place, T value) {
  *place = value;
  return CUDA_SUCCESS;
}

/// Any handle, never null.
template <class Handle>
Handle some() {
  return reinterpret_cast<Handle>(uintptr_t{64});
}

/// 80 for SM 80.
int capability() {
  const char *sm = std::getenv("FA_NULL_SM");
  return sm != nullptr ? std::atoi(sm) : 80;
}

CUresult device_attribute(int *value, int attribute, CUdevice) {
  static const int sm = capability();
  const int shared = sm < 90 ? 164 << 10 : 228 << 10;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return give(value, sm / 10);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return give(value, sm % 10);
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return give(value, 108);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return give(value, 2048);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return give(value, shared);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return give(value, shared - (1 << 10));
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return give(value, 40 << 20);
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      return give(value, 1);
    default:
      return give(value, 0);
  }
}

CUresult pointer_attributes(unsigned count, int *attributes, void **values, CUdeviceptr address) {
  for (unsigned i = 0; i < count; i++) {
    if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) give(static_cast<unsigned *>(values[i]), 2u);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) give(static_cast<int *>(values[i]), 0);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT) give(static_cast<CUcontext *>(values[i]), some<CUcontext>());
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) give(static_cast<CUdeviceptr *>(values[i]), address);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) give(static_cast<unsigned *>(values[i]), 0u);
  }
  return CUDA_SUCCESS;
}

Driver null_driver() {
  Driver d;
  d.cuInit = [](unsigned) { return CUresult(CUDA_SUCCESS); };
  d.cuDriverGetVersion = [](int *version) { return give(version, 13000); };
  d.cuGetErrorName = d.cuGetErrorString = [](CUresult, const char **text) { return give(text, "an error"); };
  d.cuDeviceGetCount = [](int *count) { return give(count, 1); };
  d.cuDeviceGet = [](CUdevice *device, int index) { return give(device, index); };
  d.cuDeviceGetName = [](char *name, int, CUdevice) { return std::strcpy(name, "null"), CUresult(CUDA_SUCCESS); };
  d.cuDeviceGetAttribute = device_attribute;
  d.cuDevicePrimaryCtxRetain = [](CUcontext *context, CUdevice) { return give(context, some<CUcontext>()); };
  d.cuDevicePrimaryCtxGetState = [](CUdevice, unsigned *, int *active) { return give(active, 1); };
  d.cuCtxGetCurrent = [](CUcontext *context) { return give(context, some<CUcontext>()); };
  d.cuCtxGetDevice = [](CUdevice *device) { return give(device, 0); };
  d.cuCtxGetId = [](CUcontext, unsigned long long *id) { return give(id, 1ull); };
  d.cuCtxPushCurrent = [](CUcontext) { return CUresult(CUDA_SUCCESS); };
  d.cuCtxPopCurrent = [](CUcontext *context) { return give(context, some<CUcontext>()); };
  d.cuLibraryLoadData = [](CUlibrary *library, const void *, int *, void **, unsigned, int *, void **, unsigned) {
    return give(library, some<CUlibrary>());
  };
  d.cuLibraryUnload = [](CUlibrary) { return CUresult(CUDA_SUCCESS); };
  d.cuLibraryGetGlobal = [](CUdeviceptr *address, size_t *, CUlibrary, const char *) { return give(address, 64ull); };
  d.cuLibraryGetKernel = [](CUkernel *kernel, CUlibrary, const char *) { return give(kernel, some<CUkernel>()); };
  d.cuKernelGetFunction = [](CUfunction *function, CUkernel) { return give(function, some<CUfunction>()); };
  d.cuKernelSetAttribute = [](int, int, CUkernel, CUdevice) { return CUresult(CUDA_SUCCESS); };
  d.cuFuncLoad = [](CUfunction) { return CUresult(CUDA_SUCCESS); };
  d.cuLaunchKernelEx = [](const CUlaunchConfig *, CUfunction, void **, void **) { return CUresult(CUDA_SUCCESS); };
  d.cuTensorMapEncodeTiled = [](void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const unsigned *,
                                const unsigned *, int, int, int, int) { return CUresult(CUDA_SUCCESS); };
  d.cuPointerGetAttributes = pointer_attributes;
  d.cuMemAllocAsync = [](CUdeviceptr *address, size_t, CUstream) { return give(address, 256ull); };
  d.cuMemFreeAsync = [](CUdeviceptr, CUstream) { return CUresult(CUDA_SUCCESS); };
  d.cuMemsetD32Async = [](CUdeviceptr, unsigned, size_t, CUstream) { return CUresult(CUDA_SUCCESS); };
  d.cuThreadExchangeStreamCaptureMode = [](int *) { return CUresult(CUDA_SUCCESS); };
  d.cuStreamGetCtx_v2 = [](CUstream, CUcontext *context, void **) { return give(context, some<CUcontext>()); };
  d.cuStreamGetCtx = [](CUstream, CUcontext *context) { return give(context, some<CUcontext>()); };
  d.cuFuncGetAttribute = [](int *value, int, CUfunction) { return give(value, 0); };
  d.cuStreamSynchronize = [](CUstream) { return CUresult(CUDA_SUCCESS); };
  d.cuStreamIsCapturing = [](CUstream, int *capturing) { return give(capturing, 0); };
  return d;
}

const Driver &driver() {
  static const Driver it = null_driver();
  return it;
}

/// A function of the driver that counts its calls.
template <auto member>
struct Counted;
template <class... Arguments, CUresult (*Driver::*member)(Arguments...)>
struct Counted<member> {
  static inline std::atomic<unsigned long long> calls{0};
  static CUresult call(Arguments... arguments) {
    calls.fetch_add(1, std::memory_order_relaxed);
    return (driver().*member)(arguments...);
  }
};

}  // namespace

NULL_API CUresult cuGetProcAddress_v2(const char *name, void **function, int asked, uint64_t, int *) {
  void *newest = nullptr;  // of those that there were in the version asked for; later ones are behind it
#define FA_CUDA_FUNCTION(known, since, ...)             \
  if (asked >= since && std::strcmp(name, #known) == 0) \
    newest = reinterpret_cast<void *>(Counted<&Driver::known>::call);
#define FA_CUDA_LATER_FUNCTION(member, known, since, ...) \
  if (asked >= since && std::strcmp(name, #known) == 0)   \
    newest = reinterpret_cast<void *>(Counted<&Driver::member>::call);
#include "cuda/driver.inc"
#undef FA_CUDA_LATER_FUNCTION
#undef FA_CUDA_FUNCTION
  return give(function, newest);
}

/// How often a function has been called ("cuLaunchKernelEx"), in any version; nullptr: all together.
NULL_API unsigned long long fa_null_driver_calls(const char *name) {
  unsigned long long calls = 0;
#define FA_CUDA_FUNCTION(known, ...) \
  if (name == nullptr || std::strcmp(name, #known) == 0) calls += Counted<&Driver::known>::calls;
#define FA_CUDA_LATER_FUNCTION(member, known, ...) \
  if (name == nullptr || std::strcmp(name, #known) == 0) calls += Counted<&Driver::member>::calls;
#include "cuda/driver.inc"
#undef FA_CUDA_LATER_FUNCTION
#undef FA_CUDA_FUNCTION
  return calls;
}
