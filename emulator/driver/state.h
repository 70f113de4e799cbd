// The objects behind the API's handles, and the process's state. One lock guards all of it: calls are short, and
// kernels run under it in the order in which they were launched.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/api.h"
#include "driver/devices.h"
#include "driver/settings.h"
#include "exec/program.h"
#include "memory/device_heap.h"
#include "memory/device_memory.h"
#include "ptx/module.h"

namespace fa::emu::driver {

struct Context;
struct Module;

/// A function of a module, decoded when it is first asked for.
struct Kernel {
  struct Parameter {
    uint32_t offset = 0, bytes = 0;
  };
  Module *module = nullptr;
  ptx::Index function = 0;
  std::string name;
  std::vector<Parameter> parameters;
  std::shared_ptr<const Program> program;
  uint32_t max_dynamic_shared = 48 * 1024;
  uint32_t registers = 0;  // a thread, from the cubin beside the PTX; 0: unknown, no limit
};

struct Module {
  Context *context = nullptr;
  std::shared_ptr<const ptx::Module> ptx;
  std::vector<uint64_t> addresses;  // by ptx::Module::variables
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels;
  ~Module();
};

struct Device {
  int ordinal = 0;
  DeviceLimits limits;
  std::unique_ptr<memory::DeviceMemory> memory;
  std::unique_ptr<memory::DeviceHeap> heap;  // made for the first kernel that calls malloc
  std::unique_ptr<Context> primary;
  int primary_users = 0;
  uint32_t primary_flags = 0;
};

struct Context {
  Device *device = nullptr;
  CUresult sticky = CUDA_SUCCESS;  // after a fault every call fails with it
  std::set<std::unique_ptr<Module>> modules;
};

struct Process {
  std::recursive_mutex mutex;
  bool initialised = false;
  std::vector<std::unique_ptr<Device>> devices;
  std::set<std::unique_ptr<Context>> contexts;  // made by cuCtxCreate
  std::set<const void *> handles;               // of everything that is alive
  uint64_t launches = 0;
};

Process &process();
using Lock = std::lock_guard<std::recursive_mutex>;

/// The device of an ordinal; refuses others.
Device &device_at(CUdevice ordinal);
/// The calling thread's stack of contexts; the last is current.
std::vector<Context *> &context_stack();
/// The current context; refuses where there is none, or where a fault has ended it.
Context &current();

/// From a handle to its object; refuses handles that are not alive.
template <class T, class Handle>
T &object(Handle handle, CUresult code = CUDA_ERROR_INVALID_HANDLE) {
  if (!process().handles.count(handle)) refuse(code, "a handle that is none, or no longer one");
  return *reinterpret_cast<T *>(handle);
}
template <class Handle, class T>
Handle handle_of(T *object) {
  return reinterpret_cast<Handle>(object);
}

/// Parses an image and places its variables. Refuses what cannot run on the device.
Module *load_module(Context &context, const void *image);
/// Null where the module has no such kernel; refuses instructions that the emulator does not know.
Kernel *find_kernel(Module &module, const std::string &name);
void unload(Module *module);

/// Runs a kernel to its end; a fault becomes the context's sticky error.
struct LaunchRequest {
  Kernel *kernel = nullptr;
  LaunchShape shape;
  std::vector<uint8_t> parameters;
  bool cooperative = false;
};
CUresult launch(Context &context, const LaunchRequest &request);
/// A kernel's parameters, packed from cuLaunchKernel's arguments.
std::vector<uint8_t> pack_parameters(const Kernel &kernel, void **parameters, void **extra);
/// Blocks of this shape that the whole device holds at once.
uint32_t resident_blocks(const DeviceLimits &limits, const Kernel &kernel, const LaunchShape &shape);

}  // namespace fa::emu::driver
