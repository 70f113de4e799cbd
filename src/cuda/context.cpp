#include "cuda/context.h"

#include <atomic>
#include <mutex>

#include "core/status.h"

namespace fa::cuda {
namespace {

std::atomic<CUcontext> retained[max_devices];
std::mutex retaining;

/// Of each device 1 more than the identity of the context of it that a call was in last; 0: none. No other context ever
/// has that identity.
std::atomic<unsigned long long> known_of[max_devices];

/// True when the primary context is retained, by whomever: a reset takes it from all of them.
bool is_active(const Device &device) {
  unsigned flags = 0;
  int active = 0;
  return machine().driver.cuDevicePrimaryCtxGetState(device.handle, &flags, &active) == CUDA_SUCCESS && active != 0;
}

/// Stores whether the current context is one of the device, and its identity. One that ended is of none: a primary
/// context that was reset stays current, and is of no use until it is retained again.
fa_status is_of(const Device &device, CUcontext current, bool *yes, unsigned long long *id) {
  const auto has_ended = [](CUresult result) {
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT;
  };
  const Driver &driver = machine().driver;
  *yes = false;
  if (const CUresult result = driver.cuCtxGetId(current, id); result != CUDA_SUCCESS)
    return has_ended(result) ? FA_OK : failed(driver, "cuCtxGetId", result, "%s", "");
  std::atomic<unsigned long long> &known = known_of[device.index];
  if (known.load(std::memory_order_relaxed) == *id + 1) {
    *yes = true;
    return FA_OK;
  }
  CUdevice of = 0;
  if (const CUresult result = driver.cuCtxGetDevice(&of); result != CUDA_SUCCESS)
    return has_ended(result) ? FA_OK : failed(driver, "cuCtxGetDevice", result, "%s", "");
  *yes = of == device.handle;
  if (*yes) known.store(*id + 1, std::memory_order_relaxed);
  return FA_OK;
}

/// The device's primary context, retained once a process and after each reset.
fa_status primary(const Device &device, CUcontext *context) {
  const auto is_kept = [&] {
    return (*context = retained[device.index].load(std::memory_order_acquire)) != nullptr && is_active(device);
  };
  if (is_kept()) return FA_OK;
  const std::lock_guard lock(retaining);
  if (is_kept()) return FA_OK;
  const Driver &driver = machine().driver;
  if (const CUresult result = driver.cuDevicePrimaryCtxRetain(context, device.handle); result != CUDA_SUCCESS)
    return failed(driver, "cuDevicePrimaryCtxRetain", result, "device %d (%s) gives no context", device.index,
                  device.name);
  retained[device.index].store(*context, std::memory_order_release);
  return FA_OK;
}

}  // namespace

InContext::~InContext() {
  CUcontext ignored = nullptr;
  while (pushed_-- > 0) machine().driver.cuCtxPopCurrent(&ignored);
}

fa_status InContext::push(CUcontext handle) {
  const Driver &driver = machine().driver;
  if (const CUresult result = driver.cuCtxPushCurrent(handle); result != CUDA_SUCCESS)
    return failed(driver, "cuCtxPushCurrent", result, "was the context destroyed or reset?");
  pushed_++;
  return FA_OK;
}

fa_status InContext::enter(const Device &device, CUcontext wanted) {
  const Driver &driver = machine().driver;
  CUcontext current = nullptr;
  if (const CUresult result = driver.cuCtxGetCurrent(&current); result != CUDA_SUCCESS)
    return failed(driver, "cuCtxGetCurrent", result, "%s", "");
  if (wanted == nullptr && current != nullptr) {
    bool stays = false;
    if (const fa_status status = is_of(device, current, &stays, &context_.id)) return status;
    if (stays) {
      context_.handle = current;
      return FA_OK;
    }
  }
  if (wanted == nullptr) {
    if (const fa_status status = primary(device, &wanted)) return status;
  }
  if (wanted != current) {
    if (const fa_status status = push(wanted)) return status;
  }
  context_.handle = wanted;
  if (const CUresult result = driver.cuCtxGetId(wanted, &context_.id); result != CUDA_SUCCESS)
    return failed(driver, "cuCtxGetId", result, "was the context destroyed or reset?");
  return FA_OK;
}

fa_status check_stream(CUstream stream, const Context &context) {
  constexpr uintptr_t last_special = 2;  // NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are the current context's
  if (reinterpret_cast<uintptr_t>(stream) <= last_special) return FA_OK;
  const Driver &driver = machine().driver;
  int capturing = 0;
  if (const CUresult result = driver.cuStreamIsCapturing(stream, &capturing); result != CUDA_SUCCESS)
    return failed(driver, "cuStreamIsCapturing", result, "was args.stream destroyed, or is it no stream?");
  // A driver may refuse the question during a capture, and end the capture by it.
  if (capturing != 0) return FA_OK;
  CUcontext of = nullptr;
  void *green = nullptr;  // a part of a context, with which the stream may work, too
  // Drivers before 12.5 do not report green contexts: their streams are taken for those of another context.
  const CUresult result = driver.cuStreamGetCtx_v2 != nullptr ? driver.cuStreamGetCtx_v2(stream, &of, &green)
                                                              : driver.cuStreamGetCtx(stream, &of);
  if (result != CUDA_SUCCESS)
    return failed(driver, "cuStreamGetCtx", result, "was args.stream destroyed, or is it no stream?");
  if (of == context.handle || green != nullptr) return FA_OK;
  return fail(
      FA_ERROR_INVALID_ARGUMENT,
      "args.stream belongs to another CUDA context than the call's tensors; expected a stream of theirs (of the "
      "current context, where all of them are managed memory or the host's)");
}

}  // namespace fa::cuda
