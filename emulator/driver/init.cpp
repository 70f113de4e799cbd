// Start, versions, devices, contexts, errors: what every program calls first.
#include <dlfcn.h>

#include <cstring>

#include "driver/attributes.h"
#include "driver/state.h"

using namespace fa::emu::driver;

EMU_API CUresult cuInit(unsigned flags) {
  return api(
      "cuInit",
      [&] {
        Lock lock(process().mutex);
        require(flags == 0, "flags must be 0");
        if (process().initialised) return CUDA_SUCCESS;
        for (const std::string &error : settings().errors) tell("cuInit", CUDA_ERROR_INVALID_VALUE, error);
        require(!settings().devices.empty(), "FA_EMU_DEVICE names no device", CUDA_ERROR_NO_DEVICE);
        for (const DeviceLimits &limits : settings().devices) {
          auto device = std::make_unique<Device>();
          device->ordinal = static_cast<int>(process().devices.size());
          device->limits = limits;
          if (settings().memory_bytes) device->limits.memory_bytes = settings().memory_bytes;
          device->memory = std::make_unique<fa::emu::memory::DeviceMemory>(device->limits.memory_bytes);
          process().devices.push_back(std::move(device));
        }
        process().initialised = true;
        return CUDA_SUCCESS;
      },
      true);
}

EMU_API CUresult cuDriverGetVersion(int *version) {
  return api(
      "cuDriverGetVersion",
      [&] {
        require(version != nullptr, "no place for the version");
        *version = settings().driver_version;
        return CUDA_SUCCESS;
      },
      true);
}

EMU_API CUresult cuDeviceGetCount(int *count) {
  return api("cuDeviceGetCount", [&] {
    require(count != nullptr, "no place for the count");
    *count = static_cast<int>(process().devices.size());
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return api("cuDeviceGet", [&] {
    require(device != nullptr, "no place for the device");
    *device = device_at(ordinal).ordinal;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  return api("cuDeviceGetName", [&] {
    require(name != nullptr && length > 0, "no place for the name");
    std::string text = std::string(device_at(device).limits.name) + " (emulated)";
    std::strncpy(name, text.c_str(), static_cast<size_t>(length) - 1);
    name[length - 1] = '\0';
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  return api("cuDeviceTotalMem", [&] {
    require(bytes != nullptr, "no place for the size");
    *bytes = device_at(device).limits.memory_bytes;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return api("cuDeviceGetAttribute", [&] {
    require(value != nullptr, "no place for the value");
    auto found = device_attribute(device_at(device).limits, attribute);
    require(found.has_value(), "no such attribute");
    *value = *found;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal) {
  return api("cuDevicePrimaryCtxRetain", [&] {
    Lock lock(process().mutex);
    require(context != nullptr, "no place for the context");
    Device &device = device_at(ordinal);
    if (!device.primary) {
      device.primary = std::make_unique<Context>();
      device.primary->device = &device;
      process().handles.insert(device.primary.get());
    }
    device.primary_users++;
    *context = handle_of<CUcontext>(device.primary.get());
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  return api("cuDevicePrimaryCtxRelease", [&] {
    Lock lock(process().mutex);
    Device &device = device_at(ordinal);
    require(device.primary_users > 0, "the primary context is not retained", CUDA_ERROR_INVALID_CONTEXT);
    device.primary_users--;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuCtxSetCurrent(CUcontext context) {
  return api("cuCtxSetCurrent", [&] {
    Lock lock(process().mutex);
    auto &stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(&object<Context>(context, CUDA_ERROR_INVALID_CONTEXT));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuCtxGetCurrent(CUcontext *context) {
  return api("cuCtxGetCurrent", [&] {
    require(context != nullptr, "no place for the context");
    *context = context_stack().empty() ? nullptr : handle_of<CUcontext>(context_stack().back());
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuCtxSynchronize() {
  return api("cuCtxSynchronize", [&] {
    Lock lock(process().mutex);
    current();
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuGetErrorName(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  switch (error) {
#define EMU_ERROR(name, number, words) \
  case name:                           \
    return *text = #name, CUDA_SUCCESS;
#include "driver/errors.inc"
#undef EMU_ERROR
  }
  return *text = nullptr, CUDA_ERROR_INVALID_VALUE;
}

EMU_API CUresult cuGetErrorString(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  switch (error) {
#define EMU_ERROR(name, number, words) \
  case name:                           \
    return *text = words, CUDA_SUCCESS;
#include "driver/errors.inc"
#undef EMU_ERROR
  }
  return *text = nullptr, CUDA_ERROR_INVALID_VALUE;
}

/// Functions are found among the library's own symbols: the newest version of a name.
EMU_API CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
  (void)version;
  return api(
      "cuGetProcAddress",
      [&] {
        require(symbol != nullptr && function != nullptr, "no name, or no place for the function");
        Dl_info self;
        require(dladdr(reinterpret_cast<void *>(&cuInit), &self) != 0, "the library does not find itself",
                CUDA_ERROR_UNKNOWN);
        void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
        *function = nullptr;
        for (const char *suffix : {"_v4", "_v3", "_v2", ""})
          if (!*function) {
            if (flags & 2) *function = dlsym(library, (std::string(symbol) + suffix + "_ptsz").c_str());
            if (!*function) *function = dlsym(library, (std::string(symbol) + suffix).c_str());
          }
        if (library) dlclose(library);
        if (status) *status = *function ? 0 : 1;
        return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
      },
      true);
}
