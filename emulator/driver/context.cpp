// Contexts: primary ones, own ones, and each thread's stack of them.
#include <iterator>

#include "driver/capture.h"
#include "driver/export_storage.h"
#include "driver/state.h"

using namespace fa::emu::driver;

namespace {

constexpr unsigned all_flags = 0xff;

Context &context_or_current(CUcontext handle) {
  if (!handle) return current();
  Context &context = object<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
  require_active(context);
  return context;
}

CUresult create(CUcontext *handle, unsigned flags, CUdevice ordinal) {
  return api("cuCtxCreate", [&] {
    Lock lock(process().mutex);
    require(handle != nullptr && flags <= all_flags, "no place for the context, or unknown flags");
    Device &device = device_at(ordinal);
    require_free(device);
    auto context = make_context(device);
    context->flags = flags;
    context_stack().push_back(context.get());
    *handle = handle_of<CUcontext>(context.get());
    process().contexts.insert(std::move(context));
    return CUDA_SUCCESS;
  });
}

/// Waits for the context's work and ends it.
void end(Context &context) {
  drain(&context);
  give_back_storage(context);
  Lock lock(process().mutex);
  auto &stack = context_stack();
  if (!stack.empty() && stack.back() == &context) stack.pop_back();
  dismantle(context);
}

}  // namespace

EMU_API CUresult cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice ordinal) {
  return api("cuDevicePrimaryCtxRetain", [&] {
    Lock lock(process().mutex);
    require(handle != nullptr, "no place for the context");
    Device &device = device_at(ordinal);
    require_free(device);
    Context &context = primary_of(device);
    device.primary_users++;
    if (!context.active.exchange(true)) context.flags = device.primary_flags;
    *handle = handle_of<CUcontext>(&context);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  return api("cuDevicePrimaryCtxReset", [&] {
    Context *context = nullptr;
    {
      Lock lock(process().mutex);
      context = device_at(ordinal).primary.get();
    }
    if (!context) return CUDA_SUCCESS;
    drain(context);
    give_back_storage(*context);
    Lock lock(process().mutex);
    // The handle stays, and stays current where it was; it is of no use until somebody retains the context again. Those
    // who have retained it may still release it.
    Device &device = device_at(ordinal);
    dismantle(*context);
    context->streams.clear();
    context->per_thread.clear();
    context->events.clear();
    context->sticky = CUDA_SUCCESS;
    make_alive(context);
    make_alive(&context->legacy);
    context->legacy.last = nullptr;
    device.primary_flags = context->flags = 0;
    context->active = false;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  bool last = false;
  CUresult released = api("cuDevicePrimaryCtxRelease", [&] {
    Lock lock(process().mutex);
    Device &device = device_at(ordinal);
    require(device.primary_users > 0, "the primary context is not retained", CUDA_ERROR_INVALID_CONTEXT);
    last = --device.primary_users == 0;
    return CUDA_SUCCESS;
  });
  return last ? cuDevicePrimaryCtxReset_v2(ordinal) : released;
}

EMU_API CUresult cuDevicePrimaryCtxReset(CUdevice ordinal) {
  return cuDevicePrimaryCtxReset_v2(ordinal);
}
EMU_API CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  return cuDevicePrimaryCtxRelease_v2(ordinal);
}

EMU_API CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned *flags, int *active) {
  return api("cuDevicePrimaryCtxGetState", [&] {
    Lock lock(process().mutex);
    require(flags != nullptr && active != nullptr, "no place for the flags");
    const Device &device = device_at(ordinal);
    *flags = device.primary_flags;
    *active = device.primary && device.primary->active;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags) {
  return api("cuDevicePrimaryCtxSetFlags", [&] {
    Lock lock(process().mutex);
    require(flags <= all_flags, "unknown flags");
    Device &device = device_at(ordinal);
    device.primary_flags = flags;
    if (device.primary) device.primary->flags = flags;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned flags) {
  return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

EMU_API CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}
EMU_API CUresult cuCtxCreate_v3(CUcontext *context, const void *, int, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}
EMU_API CUresult cuCtxCreate_v4(CUcontext *context, const void *, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}

EMU_API CUresult cuCtxDestroy_v2(CUcontext handle) {
  return api("cuCtxDestroy", [&] {
    Context *context = nullptr;
    {
      Lock lock(process().mutex);
      context = &object<Context>(handle, CUDA_ERROR_INVALID_CONTEXT);
      require(context != context->device->primary.get(), "a primary context is released, not destroyed",
              CUDA_ERROR_INVALID_CONTEXT);
    }
    end(*context);
    Lock lock(process().mutex);
    erase_owned(process().contexts, context);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return api("cuCtxPushCurrent", [&] {
    Lock lock(process().mutex);
    context_stack().push_back(&object<Context>(context, CUDA_ERROR_INVALID_CONTEXT));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  return api("cuCtxPopCurrent", [&] {
    require(!context_stack().empty(), "no context is current", CUDA_ERROR_INVALID_CONTEXT);
    if (context) *context = handle_of<CUcontext>(context_stack().back());
    context_stack().pop_back();
    return CUDA_SUCCESS;
  });
}

/// The symbols of CUDA 2.0, which programs and bindings that look names up with dlsym still take.
EMU_API CUresult cuCtxPushCurrent(CUcontext context) {
  return cuCtxPushCurrent_v2(context);
}

EMU_API CUresult cuCtxPopCurrent(CUcontext *context) {
  return cuCtxPopCurrent_v2(context);
}

EMU_API CUresult cuCtxSetCurrent(CUcontext context) {
  return api("cuCtxSetCurrent", [&] {
    Lock lock(process().mutex);
    auto &stack = context_stack();
    Context *chosen = context ? &object<Context>(context, CUDA_ERROR_INVALID_CONTEXT) : nullptr;
    if (!stack.empty()) stack.pop_back();
    if (chosen) stack.push_back(chosen);
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

EMU_API CUresult cuCtxSynchronize_v2(CUcontext handle) {
  return api("cuCtxSynchronize", [&] {
    Context *context = nullptr;
    {
      Lock lock(process().mutex);
      context = &context_or_current(handle);
      require_no_capture_in(*context);
    }
    drain(context);
    return context->sticky.load();
  });
}
EMU_API CUresult cuCtxSynchronize() {
  return cuCtxSynchronize_v2(nullptr);
}

EMU_API CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
  return api("cuCtxGetDevice", [&] {
    Lock lock(process().mutex);
    require(device != nullptr, "no place for the device");
    // Programs call this to learn whether a context is current: a failure is expected, so not logged.
    if (!context && context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context_or_current(context).device->ordinal;
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuCtxGetDevice(CUdevice *device) {
  return cuCtxGetDevice_v2(device, nullptr);
}

EMU_API CUresult cuCtxGetFlags(unsigned *flags) {
  return api("cuCtxGetFlags", [&] {
    require(flags != nullptr, "no place for the flags");
    *flags = current().flags;
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuCtxSetFlags(unsigned flags) {
  return api("cuCtxSetFlags", [&] {
    require(flags <= all_flags, "unknown flags");
    current().flags = flags;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
  return api_value("cuCtxGetId", id, "number", [&] { return context_or_current(context).id; });
}

EMU_API CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
  return api("cuCtxGetApiVersion", [&] {
    Lock lock(process().mutex);
    require(version != nullptr, "no place for the version");
    context_or_current(context);
    *version = 3020;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuCtxGetLimit(size_t *value, int limit) {
  return api("cuCtxGetLimit", [&] {
    require(value != nullptr, "no place for the value");
    Context &context = current();
    require(limit >= 0 && limit < static_cast<int>(std::size(context.limits)), "no such limit",
            CUDA_ERROR_UNSUPPORTED_LIMIT);
    *value = context.limits[limit];
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuCtxSetLimit(int limit, size_t value) {
  return api("cuCtxSetLimit", [&] {
    Context &context = current();
    require(limit >= 0 && limit < static_cast<int>(std::size(context.limits)), "no such limit",
            CUDA_ERROR_UNSUPPORTED_LIMIT);
    context.limits[limit] = value;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuCtxGetCacheConfig(int *config) {
  return api("cuCtxGetCacheConfig", [&] {
    require(config != nullptr, "no place for the configuration");
    current();
    *config = 0;
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuCtxSetCacheConfig(int) {
  return api("cuCtxSetCacheConfig", [&] { return current(), CUDA_SUCCESS; });
}
/// Banks of shared memory are as wide on all emulated devices.
EMU_API CUresult cuCtxGetSharedMemConfig(int *config) {
  return api("cuCtxGetSharedMemConfig", [&] {
    require(config != nullptr, "no place for the configuration");
    current();
    constexpr int four_bytes = 1;
    *config = four_bytes;
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuCtxSetSharedMemConfig(int) {
  return api("cuCtxSetSharedMemConfig", [&] { return current(), CUDA_SUCCESS; });
}
EMU_API CUresult cuCtxResetPersistingL2Cache() {
  return api("cuCtxResetPersistingL2Cache", [&] { return current(), CUDA_SUCCESS; });
}

EMU_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return api("cuCtxGetStreamPriorityRange", [&] {
    current();
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned) {
  return api("cuCtxEnablePeerAccess", [&]() -> CUresult {
    Lock lock(process().mutex);
    current(), object<Context>(peer, CUDA_ERROR_INVALID_CONTEXT);
    refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "emulated devices see each other's memory through copies only");
  });
}
EMU_API CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return api("cuCtxDisablePeerAccess", [&]() -> CUresult {
    Lock lock(process().mutex);
    current(), object<Context>(peer, CUDA_ERROR_INVALID_CONTEXT);
    refuse(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "emulated devices see each other's memory through copies only");
  });
}
