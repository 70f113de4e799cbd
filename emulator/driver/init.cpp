// Start, versions, devices, errors: the first calls of every program.
#include <cstdio>
#include <cstring>

#include "driver/attributes.h"
#include "driver/called_as.h"
#include "driver/findings.h"
#include "driver/interrupt.h"
#include "driver/state.h"
#include "driver/totals.h"

using namespace fa::emu::driver;

/// A symbol that NVIDIA's driver does not have, by which programs know the emulator.
extern "C" __attribute__((visibility("default"))) const char *const fa_emu_version;
const char *const fa_emu_version = EMU_VERSION;

namespace {

/// Once; invalid settings even where FA_EMU_QUIET is set, since they keep every program from starting.
void report_settings() {
  static const bool reported = [] {
    for (const std::string &error : settings().errors) std::fprintf(stderr, "fa-emu: error: %s\n", error.c_str());
    for (const std::string &warning : settings().warnings) warn("cuInit", warning);
    return true;
  }();
  static_cast<void>(reported);
}

}  // namespace

EMU_API CUresult cuInit(unsigned flags) {
  return api(
      "cuInit",
      [&] {
        Lock lock(process().mutex);
        require(flags == 0, "flags must be 0");
        if (process().initialised) return CUDA_SUCCESS;
        report_settings();
        require(!settings().devices.empty(), "FA_EMU_DEVICE names no device", CUDA_ERROR_NO_DEVICE);
        require(settings().errors.empty(), "nothing runs with settings that make no sense, which are listed above");
        for (const DeviceLimits &limits : settings().devices) {
          auto device = std::make_unique<Device>();
          device->ordinal = static_cast<int>(process().devices.size());
          device->limits = limits;
          device->room.multiprocessors.set_up({static_cast<uint32_t>(limits.sm_count),
                                               static_cast<uint32_t>(limits.taken_sms),
                                               static_cast<uint32_t>(limits.slow_sms)});
          device->memory = std::make_unique<fa::emu::memory::DeviceMemory>(device->limits.memory_bytes);
          device->default_pool = {{}, device.get(), 0, 0, 0, 0, true};
          device->pool = &device->default_pool;
          make_alive(device->pool);
          process().devices.push_back(std::move(device));
        }
        process().initialised = true;
        watch_exit();
        write_totals_at_exit();
        watch_interrupts();
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
    std::string text = name_of(device_at(device).limits);
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

EMU_API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  return api("cuDeviceComputeCapability", [&] {
    require(major != nullptr && minor != nullptr, "no place for the numbers");
    *major = device_at(device).limits.major;
    *minor = device_at(device).limits.minor;
    return CUDA_SUCCESS;
  });
}

/// A device has one number in all processes.
EMU_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  return api("cuDeviceGetUuid", [&] {
    require(uuid != nullptr, "no place for the number");
    const Device &found = device_at(device);
    std::memcpy(uuid->bytes, "fa-emu device", 13);
    uuid->bytes[13] = static_cast<char>(found.limits.major);
    uuid->bytes[14] = static_cast<char>(found.limits.minor);
    uuid->bytes[15] = static_cast<char>(found.ordinal);
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

EMU_API CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
  return api("cuDeviceGetPCIBusId", [&] {
    require(text != nullptr && length > 12, "no place for the text");
    std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", device_at(device).ordinal + 1);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
  return api("cuDeviceGetByPCIBusId", [&] {
    require(device != nullptr && text != nullptr, "no text, or no place for the device");
    unsigned domain = 0, bus = 0;
    bool read = std::sscanf(text, "%x:%x:", &domain, &bus) == 2 && domain == 0 && bus >= 1;
    require(read && bus <= process().devices.size(), "no device has that number", CUDA_ERROR_INVALID_DEVICE);
    *device = static_cast<int>(bus) - 1;
    return CUDA_SUCCESS;
  });
}

/// Devices see each other's memory through copies only.
EMU_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  return api("cuDeviceCanAccessPeer", [&] {
    require(can != nullptr, "no place for the value");
    device_at(device), device_at(peer);
    *can = 0;
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuDeviceGetP2PAttribute(int *value, int, CUdevice device, CUdevice peer) {
  const CalledAs name("cuDeviceGetP2PAttribute");
  return cuDeviceCanAccessPeer(value, device, peer);
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

/// There is nothing to be switched on: reports are asked for by the environment.
EMU_API CUresult cuProfilerStart() {
  return CUDA_SUCCESS;
}
EMU_API CUresult cuProfilerStop() {
  return CUDA_SUCCESS;
}
