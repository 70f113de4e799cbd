// Process state: devices, contexts, and the frame of every call.
#include "driver/state.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "driver/called_as.h"
#include "driver/memory_table.h"

namespace fa::emu::driver {

Process &process() {
  // Never destroyed: programs call the API from their own destructors.
  static Process *const instance = new Process;
  return *instance;
}

CUresult enter(const char *name, bool before_init) {
  static std::atomic<uint64_t> calls{0};
  const FailedCall &fails = settings().fails;
  if ((fails.function.empty() || fails.function == CalledAs::count(name)) && ++calls == fails.number)
    return report(name, CUDA_ERROR_UNKNOWN, "FA_EMU_FAIL asked for it");
  if (Queue::inside())
    return report(name, CUDA_ERROR_NOT_PERMITTED, "functions that a stream calls may not call the API");
  if (!before_init && !process().initialised) return report(name, CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
  return CUDA_SUCCESS;
}

CUresult report_always(const char *name, CUresult code, const std::string &reason) {
  std::fprintf(stderr, "fa-emu: %s: error %d: %s\n", name, static_cast<int>(code), reason.c_str());
  return code;
}

CUresult report(const char *name, CUresult code, const std::string &reason) {
  return settings().quiet ? code : report_always(name, code, reason);
}

void warn(const char *name, const std::string &text) {
  if (!settings().quiet) std::fprintf(stderr, "fa-emu: %s: warning: %s\n", name, text.c_str());
}

Device &device_at(CUdevice ordinal) {
  auto &devices = process().devices;
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices.size())
    refuse(CUDA_ERROR_INVALID_DEVICE, "device " + std::to_string(ordinal) + " of " + std::to_string(devices.size()));
  return *devices[static_cast<size_t>(ordinal)];
}

std::vector<Context *> &context_stack() {
  // The main thread's is kept: a program's static objects may free memory after its thread_local ones are gone.
  static thread_local auto *const stack = new std::vector<Context *>;
  struct Owner {
    std::vector<Context *> *owned = stack;
    ~Owner() {
      if (gettid() != getpid()) delete owned;
    }
  };
  static thread_local const Owner owner;
  return *stack;
}

void require_active(const Context &context) {
  require(context.active, "the primary context is not retained, or was reset since", CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

Context &current() {
  if (context_stack().empty() || !context_stack().back()) refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
  Context &context = *context_stack().back();
  if (!find_object<Context>(&context)) refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed");
  require_active(context);
  if (context.sticky != CUDA_SUCCESS) refuse(context.sticky, "a kernel of this context has failed before");
  return context;
}

Context *current_if_any() {
  if (context_stack().empty()) return nullptr;
  const Context *context = find_object<Context>(context_stack().back());
  return context && context->active ? &current() : nullptr;
}

std::unique_ptr<Context> make_context(Device &device) {
  auto context = std::make_unique<Context>();
  context->device = &device;
  context->id = ++process().ids;
  context->legacy.context = context.get();
  context->legacy.legacy = true;
  context->legacy.id = ++process().ids;
  // Stack, printf's buffer, malloc's heap, depth and pending launches of dynamic parallelism, L2's granularity.
  constexpr size_t limits[] = {1024, 1 << 20, 8 << 20, 2, 2048, 64};
  std::copy(std::begin(limits), std::end(limits), context->limits);
  make_alive(context.get());
  make_alive(&context->legacy);
  return context;
}

Context &primary_of(Device &device) {
  if (!device.primary) {
    device.primary = make_context(device);
    device.primary->active = false;
  }
  return *device.primary;
}

void require_free(const Device &device) {
  require(!device.limits.busy, "another process has the device for itself", CUDA_ERROR_DEVICE_UNAVAILABLE);
}

void dismantle(Context &context) {
  context.device->room.multiprocessors.reset_columns(0);
  for (const auto &library : process().libraries) library->modules.erase(&context);
  while (!context.modules.empty()) unload(context.modules.begin()->get());
  for (const auto &stream : context.streams) make_dead(stream.get());
  for (const auto &[thread, stream] : context.per_thread) make_dead(stream.get());
  for (const auto &event : context.events) make_dead(event.get());
  std::vector<uint64_t> memory;
  for (const auto &[address, allocation] : process().allocations)
    if (allocation.context == &context && allocation.kind != memory::RangeKind::host) memory.push_back(address);
  for (uint64_t address : memory) release_allocation(address);
  make_dead(&context.legacy);
  make_dead(&context);
}

void drain(const Context *context) {
  queue().wait_all(context);
}

}  // namespace fa::emu::driver
