// Process state: devices, contexts, and the frame of every call.
#include "driver/state.h"

#include <atomic>
#include <cstdio>

namespace fa::emu::driver {

Process &process() {
  // Never destroyed: programs call the API from their own destructors.
  static Process *const instance = new Process;
  return *instance;
}

CUresult enter(const char *name, bool before_init) {
  static std::atomic<uint64_t> calls{0};
  if (++calls == settings().fail_call) return tell(name, CUDA_ERROR_UNKNOWN, "FA_EMU_FAIL asked for it");
  if (!before_init && !process().initialised) return tell(name, CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
  return CUDA_SUCCESS;
}

CUresult tell(const char *name, CUresult code, const std::string &reason) {
  if (!settings().quiet)
    std::fprintf(stderr, "fa-emu: %s: error %d: %s\n", name, static_cast<int>(code), reason.c_str());
  return code;
}

Device &device_at(CUdevice ordinal) {
  auto &devices = process().devices;
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices.size())
    refuse(CUDA_ERROR_INVALID_DEVICE, "device " + std::to_string(ordinal) + " of " + std::to_string(devices.size()));
  return *devices[static_cast<size_t>(ordinal)];
}

std::vector<Context *> &context_stack() {
  static thread_local std::vector<Context *> stack;
  return stack;
}

Context &current() {
  if (context_stack().empty() || !context_stack().back()) refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
  Context &context = *context_stack().back();
  if (context.sticky != CUDA_SUCCESS) refuse(context.sticky, "a kernel of this context has failed before");
  return context;
}

}  // namespace fa::emu::driver
